# shellcheck shell=bash
# The cluster as a whole: up, down, status.

cmd_up() {
  [ "$(id -u)" = 0 ] || die "namespaces, mounts and loop devices need root: run this as root"
  if pid_of control >/dev/null; then
    log "the cluster is up already"
    return 0
  fi
  cmd_build
  local started=$SECONDS node
  cmd_down # remove the remains of an interrupted `up`
  _lay_out_state
  make_pki
  _start_control_plane
  for node in $(node_names); do start_node "$node"; done
  wait_for "the API server" admin get --raw /readyz
  log "the API server is ready after $((SECONDS - started)) s"
  _apply_storage
  for node in $(node_names); do
    wait_for "containerd on $node" inside "$node" test -S /run/containerd/containerd.sock
  done
  wait_for "the pause image" cmd_load_image "$CACHE/pause.tar"
  for node in $(node_names); do wait_for "$node" node_ready "$node"; done
  wait_for "the default service account" admin -n default get serviceaccount default
  log "up in $((SECONDS - started)) s: export KUBECONFIG=$STATE/kubeconfig PATH=$BIN:\$PATH"
}

_lay_out_state() {
  local i file
  mkdir -p "$STATE"/{log,run,csi,conf} "${SCRATCH[@]}" "$KUBELET_DIR"
  mkdir -p -m 700 "$STATE/etcd"
  for ((i = 1; i <= NODES; i++)); do mkdir -p "$STATE/nodes/node$i"; done
  compgen -G '/dev/loop[0-9]*' >"$STATE/run/loops" || true # the loop devices that exist already
  truncate -s "$VOLUME_SPACE" "$STATE/csi.img"
  # Without btrfs in the kernel the mount fails later, and snapshots are full copies.
  with_libraries mkfs.btrfs -q -f "$STATE/csi.img" >/dev/null 2>&1 || true
  make_cgroups "$CGROUP"
  echo "nameserver $CONTROL_IP" >"$STATE/conf/resolv.conf"
  for file in Corefile storage.yaml network.nft; do render $file >"$STATE/conf/$file"; done
}

_start_control_plane() {
  local pid
  become_space control "$STATE/log/init.log" &
  poll _has_mounted $! || true
  if [ ! -e "$STATE/run/csi-mounted" ] || ! pid_of control >/dev/null; then
    cat "$STATE/log/init.log" >&2
    die "the control plane did not start"
  fi
  pid=$(pid_of control)
  ip link add "$HOST_INTERFACE" type veth peer name tc-up netns "$pid"
  ip addr add "$HOST_IP" peer "$CONTROL_IP" dev "$HOST_INTERFACE"
  ip link set "$HOST_INTERFACE" up
  ip route add "$NET.0.0/16" via "$CONTROL_IP"
  wait_for "the network" in_control_network nft list table inet testcluster
}

# The control plane has mounted the volumes, or has ended before it could.
_has_mounted() { # PID
  [ -e "$STATE/run/csi-mounted" ] || ! kill -0 "$1" 2>/dev/null
}

_apply_storage() {
  local kind crds=()
  for kind in volumesnapshots volumesnapshotclasses volumesnapshotcontents; do
    crds+=("crd/$kind.snapshot.storage.k8s.io")
  done
  wait_for "the snapshot CRDs" admin apply --server-side -f "$CACHE/crd"
  wait_for "the snapshot CRDs" admin wait --for=condition=Established "${crds[@]}" --timeout=1s
  touch "$STATE/run/crds" # the snapshot controllers wait for it
  wait_for "the storage classes" admin apply -f "$STATE/conf/storage.yaml"
}

cmd_down() {
  local pid
  if pid=$(pid_of control); then
    kill -KILL "$pid" 2>/dev/null || true # all nodes end with PID 1 of the control plane
    wait_until_gone "$pid"
  fi
  poll _no_space_left || log "processes remain: $(pgrep -f -- " __init $STATE " | xargs)"
  ip link del "$HOST_INTERFACE" 2>/dev/null || true
  remove_cgroups "$CGROUP"
  _remove_mount_points
  [ -d "$STATE" ] || return 0
  poll _no_image_in_use || log "loop devices still use images below $STATE"
  _remove_new_loop_devices
  ! grep -q " $STATE/" /proc/self/mountinfo || die "something is mounted below $STATE: unmount it"
  if [ -n "${KEEP_LOGS:-}" ]; then
    rm -rf "$STATE.log"
    cp -r "$STATE/log" "$STATE.log"
  fi
  rm -rf --one-file-system "$STATE"
}

# The empty mount points. While another cluster runs, removing them would unmount its mounts.
_remove_mount_points() {
  ! pgrep -f -- "cluster.sh __init " >/dev/null || return 0
  rmdir "${SCRATCH[@]}" "$KUBELET_DIR" 2>/dev/null || true
}

_no_space_left() { ! pgrep -f -- " __init $STATE " >/dev/null; }

_no_image_in_use() { ! losetup -n -O BACK-FILE | grep -q "^$STATE/"; }

# Loop devices that were created on demand. losetup can detach a device, but not remove it.
_remove_new_loop_devices() {
  local device remove='open(F, "+<", "/dev/loop-control") && ioctl(F, 0x4C81, int($ARGV[0]))'
  [ -e "$STATE/run/loops" ] || return 0
  for device in $(compgen -G '/dev/loop[0-9]*' | grep -vxFf "$STATE/run/loops"); do
    perl -e "$remove" "${device#/dev/loop}" || true
  done
}

cmd_status() {
  local space
  if ! pid_of control >/dev/null; then
    echo "down"
    return 1
  fi
  for space in control $(node_names); do
    echo "$space: $(_state_of "$space")"
  done
  admin get nodes -o wide
  admin get pods -A -o wide
  admin get volumeattachments
}

_state_of() { # control|NODE
  local pid namespace
  if ! pid=$(pid_of "$1"); then
    echo "down"
    return 0
  fi
  namespace=$(readlink "/proc/$pid/ns/pid" | tr -dc 0-9)
  ps -eo pidns,rss --no-headers |
    awk -v ns="$namespace" '$1 == ns { kib += $2 } END { printf "up, %.0f MiB", kib / 1024 }'
  if [ "$1" != control ]; then
    select_node "$1"
    ! cut_set get cut || printf ', cut off everything'
    ! cut_set get noapi || printf ', cut off the API server'
  fi
}
