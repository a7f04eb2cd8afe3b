# shellcheck shell=bash
# Builds all programs from Go modules and Debian packages into the cache. Each has a key file there:
# it is rebuilt only after its versions, flags or source have changed.

# Unpacked below $ROOT, not installed. This text is the key of the unpacked packages.
DEBIAN_PACKAGES="containerd runc containernetworking-plugins nftables libnftables1 libnftnl11 libmnl0 libjansson4 libedit2 libbsd0
  libmd0 libgmp10 libxtables12 libseccomp2 btrfs-progs liblzo2-2 mmdebstrap docker-registry
  iptables libip4tc2 libip6tc2 libnetfilter-conntrack3 libnfnetlink0"

_CSI_MODULES=github.com/kubernetes-csi

# Build all programs of the cluster.
cmd_build() {
  _with_cache_lock
  local started=$SECONDS
  _PROGRAMS=16
  _fetch_debian_packages
  _kubernetes_module
  local program
  for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
    _build_kubernetes $program
  done
  _build_kubernetes kubectl
  # In the version that Kubernetes itself requires.
  _build "$CACHE/src/kubernetes" etcd go.etcd.io/etcd/server/v3
  _build_addons
  _fetch_snapshot_crds
  _install_helm
  _make_pause_image
  _release_cache_lock
  ((SECONDS - started < 2)) ||
    log "built everything in $((SECONDS - started)) s; $CACHE has $(du -sh "$CACHE" | cut -f1)"
}

# Fetch only the Debian packages, for images without a cluster.
cmd_packages() { _fetch_debian_packages; }

# Build only the tools for another cluster.
cmd_build_helm() {
  _with_cache_lock
  _PROGRAMS=1
  _install_helm
  _release_cache_lock
}

cmd_build_tools() {
  _with_cache_lock
  _PROGRAMS=3
  _kubernetes_module
  _build_kubernetes kubectl
  _install_helm
  _install_program kind "$KIND" sigs.k8s.io/kind@$KIND
  _release_cache_lock
}

_with_cache_lock() {
  mkdir -p "$BIN" "$CACHE/src"
  exec 9>"$CACHE/lock"
  flock --nonblock 9 || {
    log "another process builds in $CACHE: waiting for it"
    flock 9
  }
}

_release_cache_lock() { exec 9>&-; }

# -- Go ----------------------------------------------------------------------------------------------

_kubernetes_module() { _module "$CACHE/src/kubernetes" "	k8s.io/kubernetes v$KUBERNETES"; }

_build_kubernetes() { # PROGRAM
  local at=k8s.io/component-base/version flags minor
  minor=$(cut -d. -f2 <<<"$KUBERNETES")
  flags="-X $at.gitVersion=v$KUBERNETES -X $at.gitMajor=1 -X $at.gitMinor=$minor"
  flags+=" -X $at.gitTreeState=clean -X $at.gitCommit=0000000000000000000000000000000000000000"
  flags+=" -X $at.buildDate=1970-01-01T00:00:00Z"
  _build "$CACHE/src/kubernetes" "$1" "k8s.io/kubernetes/cmd/$1" "$flags"
}

_build_addons() {
  local module=$CACHE/src/addons program
  _module "$module" "	k8s.io/kubernetes v$KUBERNETES
	$_CSI_MODULES/external-provisioner/v6 $PROVISIONER
	$_CSI_MODULES/external-attacher/v4 $ATTACHER
	$_CSI_MODULES/external-resizer/v2 $RESIZER
	$_CSI_MODULES/external-snapshotter/v8 $SNAPSHOTTER
	github.com/container-storage-interface/spec $CSI_SPEC
	github.com/coredns/coredns $COREDNS"
  _build "$module" csi-provisioner $_CSI_MODULES/external-provisioner/v6/cmd/csi-provisioner
  _build "$module" csi-attacher $_CSI_MODULES/external-attacher/v4/cmd/csi-attacher
  _build "$module" csi-resizer $_CSI_MODULES/external-resizer/v2/cmd/csi-resizer
  _build "$module" csi-snapshotter $_CSI_MODULES/external-snapshotter/v8/cmd/csi-snapshotter
  _build "$module" snapshot-controller \
    $_CSI_MODULES/external-snapshotter/v8/cmd/snapshot-controller
  for program in csi coredns pause; do _build "$module" $program ./$program; done
}

# Print the directory of the source of MODULE@VERSION; download it if it is missing.
_source_of() { (cd / && go mod download -json "$1") | jq -r .Dir; }

# Write a go.mod with the requirements, with Kubernetes' own modules pinned to its version.
_module() { # DIRECTORY REQUIREMENTS
  [ "$(cat "$1/.key" 2>/dev/null)" != "$2" ] || return 0
  local kubernetes minor=${KUBERNETES#1.}
  log "fetching the source of Kubernetes $KUBERNETES"
  kubernetes=$(_source_of "k8s.io/kubernetes@v$KUBERNETES")
  mkdir -p "$1"
  rm -f "$1"/go.mod "$1"/go.sum
  {
    printf 'module testcluster/%s\n\ngo 1.26.0\n\ngodebug default=go1.26\n\n' "${1##*/}"
    printf 'require (\n%s\n)\n\nreplace (\n' "$2"
    sed -n "s#^\t\(k8s.io/[a-z0-9-]*\) => ./staging.*#\t\1 => \1 v0.$minor#p" "$kubernetes/go.mod"
    echo ")"
  } >"$1/go.mod"
  echo "$2" >"$1/.key"
}

# Build a package of a module. A package that begins with ./ is from programs/.
_build() { # MODULE-DIRECTORY PROGRAM PACKAGE [LINKER-FLAGS]
  local text="" key
  case $3 in ./*)
    rm -rf "${1:?}/$3"
    cp -r "$HERE/programs/$3" "$1/$3"
    text=$(cat "$HERE/programs/$3"/*.go | sha256sum)
    ;;
  esac
  key=$(echo "$(cat "$1/.key")" "$3" "${4:-}" "$text" | sha256sum)
  _is_built "$2" "$key" && return 0
  _showing_progress "$2" _go_in "$1" build -v -ldflags "-s -w ${4:-}" -o "$BIN/.$2.tmp" "$3"
  mv "$BIN/.$2.tmp" "$BIN/$2"
  echo "$key" >"$BIN/.$2.key"
}

_go_in() { # DIRECTORY GO-COMMAND ARGUMENT...
  cd "$1" && CGO_ENABLED=0 GOWORK=off GOFLAGS="-mod=mod -trimpath -buildvcs=false" \
    GOBIN=$BIN go "$2" -p "${JOBS:-$(nproc)}" "${@:3}"
}

_install_helm() {
  _install_program helm "$HELM" \
    -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$HELM" \
    "helm.sh/helm/v3/cmd/helm@$HELM"
}

# Build a program with the dependency versions of its own module.
_install_program() { # PROGRAM KEY GO-INSTALL-ARGUMENT...
  _is_built "$1" "$2" && return 0
  _showing_progress "$1" _go_install "${@:3}"
  echo "$2" >"$BIN/.$1.key"
}

_go_install() { # ARGUMENT...
  CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOBIN=$BIN \
    go install -v -p "${JOBS:-$(nproc)}" "$@"
}

_is_built() { # PROGRAM KEY
  _COUNT=$((${_COUNT:-0} + 1))
  [ -x "$BIN/$1" ] && [ "$(cat "$BIN/.$1.key" 2>/dev/null)" = "$2" ]
}

# Run a Go command that lists the packages it compiles, and log its progress every 15 s.
_showing_progress() { # PROGRAM COMMAND...
  local program=$1 started=$SECONDS said=$CACHE/build.log go ticks=0 packages
  shift
  log "building $program ($_COUNT of $_PROGRAMS)"
  "$@" >"$said" 2>&1 9>&- &
  go=$!
  while kill -0 $go 2>/dev/null; do
    sleep 0.2
    ticks=$((ticks + 1))
    ((ticks % 75 == 0)) || continue
    packages=$(grep -cv '^go: ' "$said" || true)
    log "building $program: $packages packages after $((SECONDS - started)) s"
  done
  wait $go || {
    tail -n 20 "$said" >&2
    die "$program was not built; the whole output is in $said"
  }
  log "built $program in $((SECONDS - started)) s"
}

# -- the rest ----------------------------------------------------------------------------------------

# With a lock that is not the build's: who needs only the packages does not wait for all programs.
_fetch_debian_packages() {
  mkdir -p "$CACHE"
  exec 8>"$CACHE/packages.lock"
  flock 8
  [ "$(cat "$ROOT/.done" 2>/dev/null)" = "$DEBIAN_PACKAGES" ] || _unpack_debian_packages
  exec 8>&-
}

_unpack_debian_packages() {
  local package name
  log "fetching Debian packages"
  rm -rf "$ROOT.new" "$CACHE/debs"
  mkdir -p "$ROOT.new" "$CACHE/debs"
  _download_packages 2>"$CACHE/apt.log" || {
    # The package lists may be missing, or too old.
    [ "$(id -u)" != 0 ] || apt-get update --quiet >/dev/null 2>"$CACHE/apt.log"
    _download_packages 2>>"$CACHE/apt.log" || {
      tail "$CACHE/apt.log" >&2
      die "apt-get could not download the packages: run apt-get update, and see its errors"
    }
  }
  for package in "$CACHE"/debs/*.deb; do dpkg -x "$package" "$ROOT.new"; done
  for name in iptables iptables-save iptables-restore; do
    ln -sf xtables-nft-multi "$ROOT.new/usr/sbin/$name"
  done
  echo "$DEBIAN_PACKAGES" >"$ROOT.new/.done"
  rm -rf "$CACHE/debs" "$ROOT"
  mv "$ROOT.new" "$ROOT"
}

_download_packages() {
  # Split into words.
  # shellcheck disable=SC2086
  (cd "$CACHE/debs" && apt-get download $DEBIAN_PACKAGES >/dev/null)
}

_fetch_snapshot_crds() {
  [ "$(cat "$CACHE/crd/.done" 2>/dev/null)" != "$SNAPSHOTTER" ] || return 0
  local client
  client=$(_source_of "$_CSI_MODULES/external-snapshotter/client/v8@$SNAPSHOTTER")
  rm -rf "$CACHE/crd"
  mkdir -p "$CACHE/crd"
  install -m 644 "$client"/config/crd/*.storage.k8s.io_*.yaml "$CACHE/crd/"
  echo "$SNAPSHOTTER" >"$CACHE/crd/.done"
}

# Write the archive that containerd loads: the program, which needs no other file.
_make_pause_image() {
  [ ! -e "$CACHE/pause.tar" ] || [ "$BIN/pause" -nt "$CACHE/pause.tar" ] || return 0
  local work digest
  work=$(mktemp -d)
  tar -C "$BIN" --owner=0 --group=0 --numeric-owner -cf "$work/layer.tar" pause
  digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  jq -cn --arg digest "sha256:$digest" '{
      architecture: "amd64", os: "linux", config: {Entrypoint: ["/pause"]},
      rootfs: {type: "layers", diff_ids: [$digest]}
    }' >"$work/config.json"
  echo '[{"Config":"config.json","RepoTags":["localhost/pause:1"],"Layers":["layer.tar"]}]' \
    >"$work/manifest.json"
  tar -C "$work" -cf "$CACHE/pause.tar.new" manifest.json config.json layer.tar
  mv "$CACHE/pause.tar.new" "$CACHE/pause.tar"
  rm -rf "$work"
}
