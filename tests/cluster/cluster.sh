#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR
# A real Kubernetes cluster on one machine, without a container engine; README.md says how it works.
#
#   cluster.sh prerequisites            name what this machine lacks; as root on Debian, install it
#   cluster.sh build                    build what is not in the cache yet
#   cluster.sh build-tools              only kubectl, helm and kind, for a cluster of another kind
#   cluster.sh up | down | status
#   cluster.sh load-image TAR...        on every node that is up
#   cluster.sh mkimage REF ARCHIVE CONFIG LAYER-TAR...
#   cluster.sh debian DIRECTORY         a minimal Debian, to make images from
#   cluster.sh exec [@NODE|@control] COMMAND...       in there (default: @node1)
#   cluster.sh kill-node NODE [sync]    power loss: what was not flushed is lost (sync: flush first)
#   cluster.sh start-node NODE          switch it on again, wait until it is Ready
#   cluster.sh partition-node NODE api  cut it off the API server only
#   cluster.sh partition-node NODE all  cut it off everything
#   cluster.sh heal-node NODE           undo that
set -euo pipefail

SELF=$(readlink -f "${BASH_SOURCE[0]}")
HERE=$(dirname "$SELF")
. "$HERE/lib/settings.sh"
. "$HERE/lib/common.sh"
. "$HERE/lib/prerequisites.sh"
. "$HERE/lib/build.sh"
. "$HERE/lib/image.sh"
. "$HERE/lib/spaces.sh"
. "$HERE/lib/pki.sh"
. "$HERE/lib/nodes.sh"
. "$HERE/lib/lifecycle.sh"
. "$HERE/lib/init.sh"
. "$HERE/lib/init-control.sh"
. "$HERE/lib/init-node.sh"

cmd_exec() { # [@SPACE] COMMAND...
  local space=node1
  case ${1:-} in @*)
    space=${1#@}
    shift
    ;;
  esac
  inside "$space" "$@"
}

# What become_space starts, as PID 1. The directory is in the command line for pid_of to find.
cmd_init() { # STATE control|NODE
  STATE=$1
  if [ "$2" = control ]; then init_control; else init_node "$2"; fi
}

usage() {
  sed -n '3,/^set/{/^set/d;s/^# \?//;p}' "$SELF" >&2
  exit 2
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
__init) cmd_init "$@" ;;
prerequisites | build | build-tools | up | down | status | load-image | mkimage | debian | exec | \
  kill-node | start-node | partition-node | heal-node) "cmd_${command//-/_}" "$@" ;;
*) usage ;;
esac
