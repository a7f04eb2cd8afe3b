# shellcheck shell=bash
# Nodes as machines: start, stop, disconnect, load images.

node_names() { ls "$STATE/nodes" 2>/dev/null || true; }

# Set the variables of a node for the templates and the functions below.
select_node() { # NODE
  [[ $1 =~ ^node[1-9][0-9]?$ ]] || die "there is no node $1: names are node1, node2 and so on"
  local number=${1#node}
  NODE=$1
  NODE_DIR=$STATE/nodes/$NODE
  NODE_IP=$NET.0.$((10 + number))
  NODE_PODS=$NET.$((127 + number)).0/24
  NODE_INTERFACE=tc-$NODE
}

select_known_node() { # NODE
  [ -n "${1:-}" ] && [ -d "$STATE/nodes/$1" ] ||
    die "there is no node '${1:-}'; the nodes are: $(node_names | xargs)"
  select_node "$1"
}

select_running_node() { # NODE
  select_known_node "${1:-}"
  pid_of "$NODE" >/dev/null || die "$NODE is not up: start it with start-node $NODE"
}

# Add the selected node to a set of conf/network.nft, remove it, or check if it is in the set.
cut_set() { # add|delete|get cut|noapi
  in_control_network nft "$1" element inet testcluster "$2" "{ $NODE_IP, $NODE_PODS }" \
    >/dev/null 2>&1
}

# The host and the control plane reach ClusterIPs through the kube-proxy of a healthy node.
route_services() {
  local node
  for node in $(node_names); do
    (
      select_node "$node"
      pid_of "$node" >/dev/null && ! cut_set get cut &&
        in_control_network ip route replace "$SERVICE_CIDR" via "$NODE_IP"
    ) && return 0
  done
  in_control_network ip route del "$SERVICE_CIDR" 2>/dev/null || true
}

start_node() { # NODE
  select_node "$1"
  local control pid
  control=$(pid_of control) || die "the cluster is not up"
  if pid_of "$NODE" >/dev/null; then
    log "$NODE is up already"
    return 0
  fi
  _write_node_files
  remove_cgroups "$CGROUP/$NODE"
  make_cgroups "$CGROUP/$NODE"
  in_control_network ip link del "$NODE_INTERFACE" 2>/dev/null || true
  become_space "$NODE" "$STATE/log/$NODE/init.log" "$control" &
  if ! poll _began $! || ! pid=$(pid_of "$NODE"); then
    cat "$STATE/log/$NODE/init.log" >&2
    die "$NODE did not start"
  fi
  poll _own_network "$pid" "$control" || die "$NODE has no network namespace"
  _connect_node "$pid"
}

# The selected node runs, or has ended before.
_began() { # PID
  pid_of "$NODE" >/dev/null || ! kill -0 "$1" 2>/dev/null
}

_write_node_files() {
  mkdir -p "$NODE_DIR"/{kubelet,containerd,conf/cni} "$STATE/log/$NODE/pods"
  render containerd.toml >"$NODE_DIR/conf/containerd.toml"
  render pods.conflist >"$NODE_DIR/conf/cni/10-pods.conflist"
  render kubelet.yaml >"$NODE_DIR/conf/kubelet.yaml"
  render kube-proxy.yaml >"$NODE_DIR/conf/kube-proxy.yaml"
}

_own_network() { # PID OTHER-PID
  [ "$(readlink "/proc/$1/ns/net")" != "$(readlink "/proc/$2/ns/net")" ]
}

_connect_node() { # PID
  in_control_network ip link add "$NODE_INTERFACE" type veth peer name tc-node netns "$1"
  in_control_network ip addr add "$CONTROL_IP" peer "$NODE_IP" dev "$NODE_INTERFACE"
  in_control_network ip link set "$NODE_INTERFACE" up
  in_control_network ip route add "$NODE_PODS" via "$NODE_IP"
  cut_set delete cut || true
  cut_set delete noapi || true
  route_services
}

node_ready() { # NODE
  admin wait --for=condition=Ready "node/$1" --timeout=1s &&
    admin get csinode "$1" -o jsonpath='{.spec.drivers[*].name}' | grep -q "$DRIVER"
}

# Ready, and reported so after TIME: the API server may still have the status of its last run.
_ready_since() { # NODE TIME
  local heartbeat='{.status.conditions[?(@.type=="Ready")].lastHeartbeatTime}'
  node_ready "$1" && [[ ! $(admin get node "$1" -o jsonpath="$heartbeat") < $2 ]]
}

cmd_start_node() { # NODE
  select_known_node "${1:-}"
  local started=$SECONDS
  start_node "$NODE"
  wait_for "$NODE" _ready_since "$NODE" "$(date -u +%FT%TZ)"
  log "$NODE is ready after $((SECONDS - started)) s"
}

cmd_kill_node() { # NODE [sync]
  select_running_node "${1:-}"
  local pid
  pid=$(pid_of "$NODE")
  [ "${2:-}" != sync ] || inside "$NODE" sync
  cut_set add cut || true # first, so that nobody sees a connection close
  _keep_only_what_was_flushed
  kill -KILL "$pid"
  wait_until_gone "$pid"
  in_control_network ip link del "$NODE_INTERFACE" 2>/dev/null || true
  remove_cgroups "$CGROUP/$NODE"
  route_services
  log "$NODE is dead"
}

# Unflushed data of the node is lost: each disk is replaced by a copy of what was written to it so far.
_keep_only_what_was_flushed() {
  local volume image attached='.Vols[]? | select(.Node == $node).ID'
  for volume in $(inside control jq -r --arg node "$NODE" "$attached" "$STATE/csi/state.json" \
    2>/dev/null || true); do
    image=$STATE/csi/volumes/$volume.img
    inside control sh -c 'cp --reflink=auto "$1" "$1.tmp" && mv "$1.tmp" "$1"' sh "$image"
  done
}

cmd_partition_node() { # NODE api|all
  select_running_node "${1:-}"
  case ${2:-} in
  api) _only_in noapi cut ;;
  all) _only_in cut noapi ;;
  *) die "partition-node NODE api|all" ;;
  esac
  route_services
}

_only_in() { # SET OTHER-SET
  cut_set delete "$2" || true
  cut_set get "$1" || cut_set add "$1"
}

cmd_heal_node() { # NODE
  select_running_node "${1:-}"
  cut_set delete noapi || true
  cut_set delete cut || true
  route_services
}

cmd_load_image() { # TAR...
  local image node job jobs failed=0
  for image in "$@"; do
    image=$(readlink -f "$image")
    jobs=()
    for node in $(node_names); do
      if ! pid_of "$node" >/dev/null; then
        log "$node is down: $image is not loaded there"
        continue
      fi
      inside "$node" ctr -a /run/containerd/containerd.sock -n k8s.io images import "$image" &
      jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job" || failed=1; done
  done
  return $failed
}
