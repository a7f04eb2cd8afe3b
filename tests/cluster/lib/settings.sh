# shellcheck shell=bash
# The settings, the versions that are built, and the paths.

# Versions. A change rebuilds only what depends on it; see build.sh.
KUBERNETES=1.36.3
COREDNS=v1.15.0
HELM=v3.22.0
KIND=v0.33.0
PROVISIONER=v6.3.0
ATTACHER=v4.13.0
RESIZER=v2.3.0
SNAPSHOTTER=v8.7.0
CSI_SPEC=v1.13.0

# From the environment, see README.md. All commands need the same values.
CACHE=${CLUSTER_CACHE:-$HOME/.cache/testcluster}
STATE=${CLUSTER_DIR:-${TMPDIR:-/tmp}/testcluster}
NODES=${CLUSTER_NODES:-1}
NET=${CLUSTER_NET:-172.30}
VOLUME_SPACE=${CLUSTER_VOL_SIZE:-40G}
NODE_GRACE=${CLUSTER_NODE_GRACE:-20s}
EVICT_SECONDS=${CLUSTER_EVICT_SECONDS:-300}
PROXY_MODE=${CLUSTER_PROXY_MODE:-nftables}

# Addresses, all in $NET.0.0/16. Nodes are .0.11, .0.12 and so on, their pods .128.0/24, .129.0/24.
HOST_IP=$NET.0.1
CONTROL_IP=$NET.0.2
API_SERVICE_IP=$NET.2.1
SERVICE_CIDR=$NET.2.0/24
POD_CIDR=$NET.128.0/17

# Names in Kubernetes, and on this machine, where they differ between clusters.
DRIVER=hostpath.csi.testcluster
CGROUP=$(basename "$STATE")
HOST_INTERFACE=tc-${NET/./-}
BIN=$CACHE/bin
ROOT=$CACHE/root                                                     # Debian packages, unpacked
LIBRARIES=$ROOT/usr/lib/x86_64-linux-gnu:$ROOT/lib/x86_64-linux-gnu  # of those packages
SCRATCH=(/run/containerd /var/lib/cni /var/log/containers)           # a tmpfs on each node
KUBELET_DIR=/var/lib/kubelet

export KUBECACHEDIR=$STATE/kubecache
export PATH=$BIN:$ROOT/usr/bin:$ROOT/usr/sbin:$ROOT/bin:$ROOT/sbin:$PATH
