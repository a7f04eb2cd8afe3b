# shellcheck shell=bash
# Common functions of PID 1 of the control plane and of a node. `LOG` is their log directory.

init_environment() {
  exec </dev/null
  trap 'exit 0' TERM
  export LD_LIBRARY_PATH=$LIBRARIES
  export XTABLES_LIBDIR=$ROOT/usr/lib/x86_64-linux-gnu/xtables
  ulimit -n 20000 2>/dev/null || true
}

# Run a command, and restart it whenever it ends.
keep_running() { # NAME COMMAND...
  local name=$1
  shift
  (
    while :; do
      "$@" >>"$LOG/$name.log" 2>&1 || true
      echo "--- $name ended, starting it again" >>"$LOG/$name.log"
      sleep 1
    done
  ) &
}

# PID 1 adopts all orphans.
reap_for_ever() {
  while :; do wait -n 2>/dev/null || sleep 1; done
}

# Set up this side of a veth pair, once the other side has moved it here.
uplink() { # INTERFACE ADDRESS PEER
  ip link set lo up
  poll ip link show "$1" >/dev/null 2>&1 || true
  ip addr add "$2" peer "$3" dev "$1"
  ip link set "$1" up
  sysctl -qw net.ipv4.ip_forward=1
}

# Programs that start without an API server retry automatically.
wait_for_api() { poll admin get --raw /readyz >/dev/null 2>&1 || true; }
