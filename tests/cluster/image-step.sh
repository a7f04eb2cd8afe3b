#!/usr/bin/env bash
# Runs a step of images/install.sh on the layers below it, and keeps its changes.
#
#   image-step.sh REPOSITORY UPPER LOWER CACHE STEP [PART]
#
# UPPER is an empty directory for the changes, LOWER the directories below it (top:...:bottom); if
# LOWER is empty, UPPER itself is changed. CACHE has pip's downloads. This process has its own mount
# namespace, so its mounts end with it.
set -euo pipefail

if [ "${_OWN_MOUNTS:-}" != yes ]; then
  _OWN_MOUNTS=yes exec unshare --mount --propagation private "$0" "$@"
fi
unset _OWN_MOUNTS

repository=$1 upper=$2 lower=$3 cache=$4
shift 4
work=$(mktemp -d "$upper.XXXXXX")
root=$work/root
mkdir "$root" "$work/work"
if [ -n "$lower" ]; then
  mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work/work" "$root"
else
  mount --bind "$upper" "$root"
fi

created=() # mount points that are not part of the image
clean_up() {
  local path
  umount --recursive "$root" 2>/dev/null || umount --recursive --lazy "$root"
  for path in "${created[@]}"; do rm -rf "${upper:?}$path"; done
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

# Mount a file or directory of this machine in the root file system, by default at the same path.
show() { # PATH [PATH-INSIDE [ro]]
  local inside=${2:-$1} missing=${2:-$1}
  [ -e "$1" ] || return 0
  if [ ! -e "$root$inside" ]; then
    while [ ! -e "$root$(dirname "$missing")" ]; do missing=$(dirname "$missing"); done
    created+=("$missing")
    mkdir -p "$root$(dirname "$inside")"
    if [ -d "$1" ]; then mkdir "$root$inside"; else : >"$root$inside"; fi
  fi
  mount --bind "$1" "$root$inside"
  [ "${3:-}" != ro ] || mount -o remount,bind,ro "$root$inside"
}

mount -t proc proc "$root/proc"
show /dev
show /etc/resolv.conf
show "$repository" /build ro
mkdir -p "$cache"
show "$cache" /root/.cache/pip
# The package index settings of this machine: configuration, certificates, local wheels. Not for the
# lowest step, which installs the certificates of the image.
if [ -n "$lower" ]; then
  for path in /etc/pip.conf "$HOME/.config/pip" "$HOME/.pip" /etc/ssl/certs/ca-certificates.crt \
    "${PIP_CERT:-}" ${PIP_FIND_LINKS:-}; do
    [ -z "$path" ] || show "$path" "$path" ro
  done
fi

env HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$root" /build/images/install.sh "$@"
