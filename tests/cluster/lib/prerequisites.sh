# shellcheck shell=bash
# The packages that must be installed on this machine. Everything else goes into the cache.

# Each package and a command that fails without it.
_PREREQUISITES=(
  "iproute2: ip -V"
  "jq: jq --version"
  "openssl: openssl version"
  "perl: perl -MPod::Usage -e 1" # not perl-base: mmdebstrap needs the modules
  "util-linux: command -v nsenter unshare flock setsid"
  "mount: command -v mount losetup"
  "procps: command -v pgrep ps sysctl"
  "buildah: buildah version" # builds the images
  "skopeo: skopeo --version" # resolves the digest of their base
  "e2fsprogs: command -v mkfs.ext4 e2fsck resize2fs"
)

cmd_prerequisites() {
  local missing=()
  mkdir -p "$CACHE"
  exec 8>"$CACHE/prerequisites.lock" # apt-get fails beside another one
  flock 8
  mapfile -t missing < <(_missing_packages)
  if ((${#missing[@]} > 0)); then
    _install_packages "${missing[@]}"
  fi
  exec 8>&-
  command -v go >/dev/null ||
    die "Go 1.26 or newer is needed to build Kubernetes: install it from https://go.dev/dl"
}

_missing_packages() {
  local entry
  for entry in "${_PREREQUISITES[@]}"; do
    bash -c "${entry#*: }" >/dev/null 2>&1 || echo "${entry%%: *}"
  done
}

_install_packages() { # PACKAGE...
  local command="apt-get install --yes --no-install-recommends $*"
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "these packages are missing: $*. Install them (Debian, as root: $command)"
  fi
  log "installing missing packages: $*"
  _as_apt apt-get update --quiet
  # Split into words: the same text is in the message above.
  # shellcheck disable=SC2086
  _as_apt $command
}

_as_apt() { # COMMAND...
  local said
  said=$(DEBIAN_FRONTEND=noninteractive "$@" 2>&1) || die "$* failed: $said"
}
