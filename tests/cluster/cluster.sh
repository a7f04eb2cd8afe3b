#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR
# A real Kubernetes cluster on one machine, without a container engine; see README.md.
#
#   cluster.sh prerequisites            list missing packages; as root on Debian, install them
#   cluster.sh build                    build the programs that are not in the cache yet
#   cluster.sh build-tools              get only kubectl, helm and kind, for another cluster
#   cluster.sh build-helm               get only helm
#   cluster.sh pin                      pin the modules of programs/ again, after a new version in go.mod
#   cluster.sh packages                 fetch only the Debian packages
#   cluster.sh up | down | status
#   cluster.sh load-image TAR...        load images on every running node
#   cluster.sh debian DIRECTORY         unpack a minimal Debian into an empty directory
#   cluster.sh exec [@NODE|@control] COMMAND...       run it there (default: @node1)
#   cluster.sh kill-node NODE [sync]    power loss: unflushed data is lost (sync: flush first)
#   cluster.sh start-node NODE          start it again, wait until it is Ready
#   cluster.sh partition-node NODE api  disconnect it from the API server only
#   cluster.sh partition-node NODE all  disconnect it from everything
#   cluster.sh heal-node NODE           undo partition-node
set -euo pipefail

SELF=$(readlink -f "${BASH_SOURCE[0]}")
HERE=$(dirname "$SELF")
. "$HERE/lib/settings.sh"
. "$HERE/lib/common.sh"
. "$HERE/lib/prerequisites.sh"
. "$HERE/lib/build.sh"
. "$HERE/lib/debian.sh"
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

# become_space starts this as PID 1. pid_of finds it by the directory in its command line.
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
prerequisites | build | build-tools | build-helm | pin | packages | up | down | status | load-image | debian | exec | \
  kill-node | start-node | partition-node | heal-node) "cmd_${command//-/_}" "$@" ;;
*) usage ;;
esac
