#!/bin/sh
# The steps that make our images, each run as root inside of what is to become one.
#
#   install.sh base                 on Debian bookworm: Python, certificates, jemalloc, the user
#   install.sh java                 on base: what runs Spark, for the pipeline's image
#   install.sh tools                on either: what the next steps need and the images do not
#   install.sh dependencies PART    on tools: /opt/dedupestream with what PART needs, as locked
#   install.sh code PART            on dependencies: our own packages
#
# The repository is at /build, and PART is an extra of pyproject.toml. The Dockerfile runs these
# steps, and so does tests/cluster, without a container engine.
set -eu

SOURCE=/build
TARGET=/opt/dedupestream
TOOLS=/opt/tools
USER_ID=65532

base() {
  apt_install ca-certificates libjemalloc2 libpython3.11-stdlib python3.11-minimal tzdata
  groupadd --gid "$USER_ID" dedupestream
  useradd --uid "$USER_ID" --gid "$USER_ID" --no-create-home --home-dir /tmp \
    --shell /usr/sbin/nologin dedupestream
  # Containers have a read-only file system, so what is not compiled here never is.
  compile /usr/lib/python3.11
}

java() {
  mkdir -p /usr/share/man/man1 # the package insists on its place, which slim images do not have
  apt_install openjdk-17-jre-headless
}

tools() {
  apt_install python3.11-venv
  python3.11 -m venv "$TOOLS"
  # pyproject.toml names what builds our wheel.
  build_requires | xargs "$TOOLS/bin/pip" install --quiet
}

dependencies() { # PART
  python3.11 -m venv --without-pip "$TARGET"
  python3.11 "$SOURCE/images/locked.py" "$SOURCE" "$1" >/tmp/requirements.txt
  # pyspark is published as source alone.
  install_with --no-binary pyspark --require-hashes --requirement /tmp/requirements.txt
  compile "$TARGET/lib"
}

code() { # PART
  "$TOOLS/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir /tmp/wheel "$SOURCE"
  install_with --no-index /tmp/wheel/dedupestream-*.whl
  for package in "$TARGET"/lib/python3.11/site-packages/dedupe_*; do compile "$package"; done
  test -x "$TARGET/bin/dedupe-$1"
}

apt_install() { # PACKAGE...
  export DEBIAN_FRONTEND=noninteractive
  apt-get update --quiet=2
  apt-get install --quiet=2 --yes --no-install-recommends "$@" >/dev/null
  apt-get clean
  rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache
}

build_requires() {
  python3.11 -c '
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    print("\n".join(tomllib.load(file)["build-system"]["requires"]))' "$SOURCE/pyproject.toml"
}

# Nothing is resolved: what is installed is what was locked.
install_with() { # PIP-ARGUMENT...
  "$TOOLS/bin/pip" --python "$TARGET/bin/python" install --quiet --no-deps --no-compile \
    --only-binary :all: "$@"
}

# Bytecode that is never compared with its source: it does not depend on when this runs.
compile() { # DIRECTORY
  # A package may ship files that are no Python of this version.
  python3.11 -m compileall -q -f --invalidation-mode unchecked-hash "$1" >/dev/null 2>&1 || true
}

"$@"
