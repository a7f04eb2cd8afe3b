# shellcheck shell=bash
# Helper functions for all parts.

log() { printf '%(%H:%M:%S)T %s\n' -1 "$*" >&2; }

die() {
  log "error: $*"
  exit 1
}

# Run a command with the libraries of the unpacked packages. Not for the machine's own programs,
# which may not work with these versions.
with_libraries() { LD_LIBRARY_PATH=$LIBRARIES "$@"; }

# kubectl as the cluster's administrator.
admin() { "$BIN/kubectl" --kubeconfig "$STATE/kubeconfig" "$@"; }

# Print a template of conf/ with each ${NAME} replaced by the value of that variable.
render() { # TEMPLATE
  local text name
  text=$(<"$HERE/conf/$1")
  while [[ $text =~ \$\{([A-Z_]+)\} ]]; do
    name=${BASH_REMATCH[1]}
    text=${text//"\${$name}"/${!name}}
  done
  printf '%s\n' "$text"
}

# Seconds that any wait may take on a machine that is free.
_PATIENCE=120

# Poll a command until it succeeds; fail after two minutes by a clock that slows down while the machine
# starves this process of CPU time, tenfold at most. So the deadline measures the system, not its
# neighbours. This process is busy for a moment between polls: one that sleeps can't starve.
poll() { # COMMAND...
  local began now shell=$BASHPID
  read -ra began < <(_clocks "$shell")
  until ("$@"); do # in a subshell, which `die` may end
    _be_busy
    read -ra now < <(_clocks "$shell")
    _is_late $((now[0] - began[0])) $((now[1] - began[1])) $((now[2] - began[2])) && return 1
    sleep 0.2
  done
}

# Print the milliseconds since the machine's start, and those for which a process has run and has
# waited for a processor, or zeros on a kernel that does not count them.
_clocks() { # PID
  local uptime ran=0 waited=0
  read -r uptime _ </proc/uptime
  [ ! -e "/proc/$1/schedstat" ] || read -r ran waited _ <"/proc/$1/schedstat"
  echo "${uptime/./}0 $((ran / 1000000)) $((waited / 1000000))"
}

_be_busy() {
  local i
  for ((i = 0; i < 3000; i++)); do :; done
}

# Decide if milliseconds are too long a wait for a process that ran and waited to run in this time.
_is_late() { # MILLISECONDS RAN WAITED
  local share=$((100 * $2 / ($2 + $3 + 1)))
  (($1 * (share > 10 ? share : 10) >= 100 * 1000 * _PATIENCE))
}

# Poll a command until it succeeds, while there is a control plane. Its output is not shown.
wait_for() { # WHAT COMMAND...
  local what=$1
  shift
  poll _unless_control_died "$@" >/dev/null 2>&1 || die "timed out waiting for $what; the logs are in $STATE/log"
  pid_of control >/dev/null || die "the control plane died; its logs are in $STATE/log"
}

_unless_control_died() { # COMMAND...
  ("$@") || ! pid_of control
}
