# shellcheck shell=bash
# The base of the project's images.

# Unpack the packages of the image debian:bookworm-slim, without what a container gets from its
# machine.
cmd_debian() { # DIRECTORY
  local directory
  directory=$(readlink -m "$1")
  with_libraries perl "$ROOT/usr/bin/mmdebstrap" --quiet --variant=minbase --mode=root \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    bookworm "$directory" \
    "deb $(_mirror Debian bookworm http://deb.debian.org/debian) bookworm main" \
    "deb $(_mirror Debian-Security bookworm-security http://deb.debian.org/debian-security) \
      bookworm-security main"
  rm -rf "$directory"/dev/* "$directory"/run/* "$directory"/etc/resolv.conf "$directory"/etc/hostname
}

# Print the mirror of this machine's apt, if this machine is a bookworm.
_mirror() { # LABEL CODENAME DEFAULT
  local found
  # The format is apt's, not the shell's.
  # shellcheck disable=SC2016
  found=$(apt-get indextargets --format '$(REPO_URI)' \
    'Created-By: Packages' "Label: $1" "Codename: $2" 2>/dev/null | sort -u | head -n 1)
  echo "${found:-$3}"
}
