# shellcheck shell=bash
# The settings, the versions that are built, and the paths.

# Versions and checksums. What is compiled for the cluster is in programs/go.mod, kubectl in conf/tools.txt.
KUBERNETES=$(awk '$1 == "k8s.io/kubernetes" && NF > 1 { print substr($2, 2) }' "$HERE/programs/go.mod")
HELM="helm.sh/helm/v4@v4.2.3 h1:JEejtPE04+SvyRomOfgRXVxyJ/lude7eShio30oQr0Y= ./cmd/helm -X helm.sh/helm/v4/internal/version.version=v4.2.3"
KIND="sigs.k8s.io/kind@v0.33.0 h1:AjvDv3vOygb/VKLVQW87lfktIBzkxR8Ump9DjxC8+Lk= ."

# From the environment, see README.md. All commands need the same values.
CACHE=${CLUSTER_CACHE:-$HOME/.cache/testcluster}
STATE=${CLUSTER_DIR:-${TMPDIR:-/tmp}/testcluster}
NODES=${CLUSTER_NODES:-1}
NET=${CLUSTER_NET:-172.30}
VOLUME_SPACE=${CLUSTER_VOL_SIZE:-40G}
NODE_GRACE=${CLUSTER_NODE_GRACE:-60s}
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

PYTHON=$HERE/../../.venv/bin/python # of `make setup`
[ -x "$PYTHON" ] || PYTHON=python3

export KUBECACHEDIR=$STATE/kubecache
export PATH=$BIN:$ROOT/usr/bin:$ROOT/usr/sbin:$ROOT/bin:$ROOT/sbin:$PATH
