# shellcheck shell=bash
# Keys, certificates and kubeconfigs of the cluster, created by each `up`.

make_pki() {
  mkdir -p "$STATE/pki" "$STATE/conf"
  _openssl req -x509 "${_NEW_KEY[@]}" -days 3650 -subj /CN=testcluster-ca \
    -keyout "$STATE/pki/ca.key" -out "$STATE/pki/ca.crt"
  _openssl genrsa -out "$STATE/pki/service-accounts.key" 2048
  _openssl rsa -in "$STATE/pki/service-accounts.key" -pubout -out "$STATE/pki/service-accounts.pub"

  local names=localhost,kubernetes,kubernetes.default,kubernetes.default.svc
  names+=,kubernetes.default.svc.cluster.local
  _server_certificate apiserver /CN=kube-apiserver \
    "DNS:${names//,/,DNS:},IP:127.0.0.1,IP:$CONTROL_IP,IP:$API_SERVICE_IP"
  _client_certificate front-proxy-client /CN=front-proxy-client
  _kubeconfig admin /O=system:masters/CN=admin "$STATE/kubeconfig"
  local component node
  for component in kube-controller-manager kube-scheduler kube-proxy; do
    _kubeconfig "$component" "/CN=system:$component" "$STATE/conf/$component.kubeconfig"
  done
  for node in $(node_names); do
    select_node "$node"
    _server_certificate "$node-server" "/O=system:nodes/CN=system:node:$node" \
      "DNS:$node,IP:$NODE_IP"
    _kubeconfig "kubelet-$node" "/O=system:nodes/CN=system:node:$node" \
      "$STATE/conf/kubelet-$node.kubeconfig"
  done
}

_NEW_KEY=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

_openssl() {
  local said
  said=$(openssl "$@" 2>&1) || die "openssl $1 failed: $said"
}

_server_certificate() { # NAME SUBJECT ALTERNATIVE-NAMES
  _certificate "$1" "$2" "extendedKeyUsage=serverAuth
subjectAltName=$3"
}

_client_certificate() { # NAME SUBJECT
  _certificate "$1" "$2" extendedKeyUsage=clientAuth
}

_certificate() { # NAME SUBJECT EXTENSIONS
  local path=$STATE/pki/$1
  _openssl req "${_NEW_KEY[@]}" -keyout "$path.key" -out "$path.csr" -subj "$2"
  echo "$3" >"$path.extensions"
  _openssl x509 -req -in "$path.csr" -CA "$STATE/pki/ca.crt" -CAkey "$STATE/pki/ca.key" \
    -CAcreateserial -days 3650 -extfile "$path.extensions" -out "$path.crt"
}

_kubeconfig() { # NAME SUBJECT FILE : with a client certificate of its own
  _client_certificate "$1" "$2"
  # Read by render.
  # shellcheck disable=SC2034
  local USER_NAME=$1 CA_DATA CERTIFICATE_DATA KEY_DATA
  CA_DATA=$(base64 -w0 "$STATE/pki/ca.crt")
  CERTIFICATE_DATA=$(base64 -w0 "$STATE/pki/$1.crt")
  KEY_DATA=$(base64 -w0 "$STATE/pki/$1.key")
  (
    umask 077
    render kubeconfig.yaml >"$3"
  )
}
