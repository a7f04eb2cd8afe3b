# shellcheck shell=bash
# PID 1 of the control plane.

init_control() {
  init_environment
  LOG=$STATE/log
  mount -o loop,noatime,nodatacow "$STATE/csi.img" "$STATE/csi" ||
    echo "no btrfs: snapshots will be full copies"
  touch "$STATE/run/csi-mounted" # nodes may start now: they inherit this mount
  hostname control 2>/dev/null || true
  uplink tc-up "$CONTROL_IP" "$HOST_IP"
  nft -f "$STATE/conf/network.nft"
  _keep_etcd
  _keep_api_server
  local socket=$STATE/run/csi.sock
  keep_running csi csi -mode controller -driver "$DRIVER" -data-dir "$STATE/csi" -socket "$socket"
  wait_for_api # so that the others do not begin with a crash
  _keep_controllers
  keep_running coredns coredns -conf "$STATE/conf/Corefile"
  _keep_storage "$socket"
  reap_for_ever
}

_keep_etcd() {
  local clients=http://127.0.0.1:2379 peers=http://127.0.0.1:2380
  keep_running etcd etcd --data-dir "$STATE/etcd" --log-level warn --unsafe-no-fsync \
    --listen-client-urls $clients --advertise-client-urls $clients \
    --listen-peer-urls $peers --initial-advertise-peer-urls $peers \
    --initial-cluster default=$peers
}

_keep_api_server() {
  local pki=$STATE/pki flags
  flags=(
    --etcd-servers=http://127.0.0.1:2379
    --bind-address=0.0.0.0 --advertise-address="$CONTROL_IP" --secure-port=6443
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key"
    --client-ca-file="$pki/ca.crt"
    --service-cluster-ip-range="$SERVICE_CIDR"
    --service-account-issuer=https://kubernetes.default.svc.cluster.local
    --service-account-key-file="$pki/service-accounts.pub"
    --service-account-signing-key-file="$pki/service-accounts.key"
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction
    --allow-privileged=true
    --kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key"
    --kubelet-certificate-authority="$pki/ca.crt"
    --kubelet-preferred-address-types=InternalIP
    --default-not-ready-toleration-seconds="$EVICT_SECONDS"
    --default-unreachable-toleration-seconds="$EVICT_SECONDS"
    --requestheader-client-ca-file="$pki/ca.crt"
    --requestheader-allowed-names=front-proxy-client
    --requestheader-username-headers=X-Remote-User
    --requestheader-group-headers=X-Remote-Group
    --requestheader-extra-headers-prefix=X-Remote-Extra-
    --proxy-client-cert-file="$pki/front-proxy-client.crt"
    --proxy-client-key-file="$pki/front-proxy-client.key"
  )
  keep_running kube-apiserver kube-apiserver "${flags[@]}"
}

_keep_controllers() {
  local conf=$STATE/conf pki=$STATE/pki flags
  flags=(
    --kubeconfig="$conf/kube-controller-manager.kubeconfig"
    --bind-address=127.0.0.1 --leader-elect=false
    --use-service-account-credentials=true
    --service-account-private-key-file="$pki/service-accounts.key"
    --root-ca-file="$pki/ca.crt"
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key"
    --flex-volume-plugin-dir="$STATE/flexvolume"
    --node-monitor-grace-period="$NODE_GRACE" --node-monitor-period=2s
    --attach-detach-reconcile-sync-period=15s
  )
  keep_running kube-controller-manager kube-controller-manager "${flags[@]}"
  keep_running kube-scheduler kube-scheduler --kubeconfig="$conf/kube-scheduler.kubeconfig" \
    --bind-address=127.0.0.1 --leader-elect=false
}

_keep_storage() { # SOCKET
  local driver=(--kubeconfig "$STATE/kubeconfig" --csi-address "$1")
  keep_running csi-provisioner csi-provisioner "${driver[@]}" \
    --feature-gates=Topology=false --extra-create-metadata
  keep_running csi-attacher csi-attacher "${driver[@]}"
  keep_running csi-resizer csi-resizer "${driver[@]}" --http-endpoint 127.0.0.1:8081
  # The snapshot controllers exit if their CRDs are missing.
  poll test -e "$STATE/run/crds" || true
  keep_running snapshot-controller snapshot-controller --kubeconfig "$STATE/kubeconfig"
  keep_running csi-snapshotter csi-snapshotter "${driver[@]}" --extra-create-metadata
}
