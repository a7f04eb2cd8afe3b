# shellcheck shell=bash
# Container images without a container engine.

# Write an archive that docker and containerd can load. CONFIG is the image's container configuration as
# JSON ({"Entrypoint": [...], "User": ...}); the layers are file systems as tars, the lowest first.
cmd_mkimage() { # REF ARCHIVE CONFIG LAYER-TAR...
  [ $# -ge 4 ] || die "mkimage REF ARCHIVE CONFIG LAYER-TAR..."
  local ref=$1 archive=$2 config=$3 work layer digest digests=() layers=()
  shift 3
  work=$(mktemp -d)
  for layer in "$@"; do
    digest=$(sha256sum "$layer" | cut -d' ' -f1)
    digests+=("sha256:$digest")
    layers+=("$digest.tar")
    ln -s "$(readlink -f "$layer")" "$work/$digest.tar"
  done
  jq -cn --argjson config "$config" '{
      architecture: "amd64", os: "linux", created: "1970-01-01T00:00:00Z",
      config: $config, rootfs: {type: "layers", diff_ids: $ARGS.positional}
    }' --args "${digests[@]}" >"$work/config.json"
  jq -cn --arg ref "$ref" \
    '[{Config: "config.json", RepoTags: [$ref], Layers: $ARGS.positional}]' \
    --args "${layers[@]}" >"$work/manifest.json"
  tar -C "$work" --dereference -cf "$archive.new" manifest.json config.json "${layers[@]}"
  mv "$archive.new" "$archive"
  rm -rf "$work"
}

# Unpack the packages of the image debian:bookworm-slim into a new directory.
cmd_debian() { # DIRECTORY
  local directory
  directory=$(readlink -m "$1")
  [ ! -e "$directory" ] || die "$directory exists: choose another directory, or remove it"
  with_libraries perl "$ROOT/usr/bin/mmdebstrap" --quiet --variant=minbase --mode=root \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    bookworm "$directory" \
    "deb $(_mirror Debian bookworm http://deb.debian.org/debian) bookworm main" \
    "deb $(_mirror Debian-Security bookworm-security http://deb.debian.org/debian-security) \
      bookworm-security main"
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
