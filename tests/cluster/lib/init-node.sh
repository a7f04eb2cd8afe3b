# shellcheck shell=bash
# PID 1 of a node.

init_node() { # NODE
  select_node "$1"
  init_environment
  LOG=$STATE/log/$NODE
  _mount_node
  hostname "$NODE" 2>/dev/null || true
  uplink tc-node "$NODE_IP" "$CONTROL_IP"
  ip route add "$NET.0.0/16" via "$CONTROL_IP" # no default route: nothing leaves the machine
  keep_running containerd containerd --config "$NODE_DIR/conf/containerd.toml"
  keep_running csi csi -mode node -node "$NODE" -driver "$DRIVER" -data-dir "$STATE/csi"
  wait_for_api
  keep_running kubelet kubelet --config "$NODE_DIR/conf/kubelet.yaml" \
    --kubeconfig "$STATE/conf/kubelet-$NODE.kubeconfig" \
    --hostname-override "$NODE" --node-ip "$NODE_IP"
  keep_running kube-proxy kube-proxy --config "$NODE_DIR/conf/kube-proxy.yaml"
  reap_for_ever
}

_mount_node() {
  local directory
  mount --make-rshared /
  for directory in "${SCRATCH[@]}"; do mount -t tmpfs tmpfs "$directory"; done
  mount --bind "$NODE_DIR/kubelet" "$KUBELET_DIR"
  mount --make-rshared "$KUBELET_DIR"
  _disguise_sysctls
  cat /proc/sys/kernel/random/uuid >"$NODE_DIR/conf/boot_id"
  mount --bind "$NODE_DIR/conf/boot_id" /proc/sys/kernel/random/boot_id
  if [ -e /etc/machine-id ]; then
    md5sum <<<"$NODE" | cut -c1-32 >"$NODE_DIR/conf/machine-id"
    mount --bind "$NODE_DIR/conf/machine-id" /etc/machine-id
  fi
}

# kubelet requires some machine-wide settings. Show it the required values, and do not change the
# real settings.
_disguise_sysctls() {
  local name value file
  while read -r name value; do
    file=$NODE_DIR/conf/${name//\//_}
    echo "$value" >"$file"
    mount --bind "$file" "/proc/sys/$name"
  done <"$HERE/conf/sysctl"
}
