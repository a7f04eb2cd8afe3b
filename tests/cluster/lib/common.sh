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

# Retry a command, up to TIMES, 50 ms apart.
retry() { # TIMES COMMAND...
  local i times=$1
  shift
  for ((i = 0; i < times; i++)); do
    "$@" && return 0
    sleep 0.05
  done
  return 1
}

# Poll a command until it succeeds. Its output is not shown.
wait_for() { # SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until ("$@") >/dev/null 2>&1; do # in a subshell, which `die` may end
    pid_of control >/dev/null || die "the control plane died; its logs are in $STATE/log"
    ((SECONDS < end)) || die "timed out waiting for $what; the logs are in $STATE/log"
    sleep 0.2
  done
}
