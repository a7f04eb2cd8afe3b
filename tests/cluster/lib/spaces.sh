# shellcheck shell=bash
# The namespaces and cgroups that hold the control plane and each node, seen from outside.

# Print the process that is PID 1 of a space. Fails if the space is down.
pid_of() { # control|NODE
  local pid
  for pid in $(pgrep -f -- " __init $STATE $1\$" || true); do
    # unshare itself has the same command line; only its child is PID 1 in there.
    if [ "$(awk '/^NSpid/ {print $NF}' "/proc/$pid/status" 2>/dev/null)" = 1 ]; then
      echo "$pid"
      return 0
    fi
  done
  return 1
}

inside() { # control|NODE COMMAND...
  local pid
  pid=$(pid_of "$1") || die "$1 is not up"
  shift
  with_libraries nsenter -t "$pid" -m -n -u -p -- "$@"
}

# Run in the control plane's network, with this machine's files.
in_control_network() { # COMMAND...
  local pid
  pid=$(pid_of control) || die "the cluster is not up"
  with_libraries nsenter -t "$pid" -n -- "$@"
}

# Become PID 1 of a new space (see init-control.sh and init-node.sh), in its own namespaces below
# those of PARENT, if given. It must not inherit open files or locks, which would stay open until the
# space ends.
become_space() { # control|NODE LOGFILE [PARENT-PID]
  local descriptor parent=()
  [ -z "${3:-}" ] || parent=(nsenter -t "$3" -m -p --)
  for descriptor in /proc/"$BASHPID"/fd/*; do
    descriptor=${descriptor##*/}
    # bash reads this very script through 255.
    if ((descriptor > 2 && descriptor != 255)); then exec {descriptor}>&-; fi
  done
  exec setsid "${parent[@]}" unshare --mount --net --uts --pid --fork --kill-child --mount-proc \
    --propagation private bash "$SELF" __init "$STATE" "$1" </dev/null >"$2" 2>&1 255>&-
}

wait_until_gone() { # PID
  poll test ! -e "/proc/$1" || die "process $1 does not end"
}

# Make a cgroup in every hierarchy.
make_cgroups() { # PATH
  local hierarchy group file
  for hierarchy in /sys/fs/cgroup/*/; do
    [ -e "${hierarchy}cgroup.procs" ] || continue
    group=$hierarchy$1
    mkdir -p "$group"
    for file in cpuset.cpus cpuset.mems; do # empty at first, and then no process may enter
      [ ! -e "$group/$file" ] || cat "$(dirname "$group")/$file" >"$group/$file"
    done
  done
}

remove_cgroups() { # PATH
  poll _without_cgroups "$1" || log "cgroups remain: $(compgen -G "/sys/fs/cgroup/*/$1" | xargs)"
}

_without_cgroups() { # PATH
  local group
  for group in /sys/fs/cgroup/*/"$1"; do
    [ -d "$group" ] || continue
    find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
  ! compgen -G "/sys/fs/cgroup/*/$1" >/dev/null
}
