#!/bin/sh
# The build steps of the images. Each runs as root in the root file system of an image.
#
#   install.sh base                 on Debian bookworm: Python, certificates, jemalloc, the user
#   install.sh java                 on base: Java for Spark, for the pipeline's image
#   install.sh tools                on base or java: build tools, which are not part of an image
#   install.sh dependencies PART    on tools: /opt/dedupestream with the locked dependencies of PART
#   install.sh code PART            on dependencies: the project's own packages
#
# The repository is at /build, and PART is an extra of pyproject.toml. The Dockerfile runs these
# steps. So does tests/cluster, without a container engine.
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
  # Containers have a read-only file system, so Python cannot write bytecode later.
  compile /usr/lib/python3.11
}

java() {
  mkdir -p /usr/share/man/man1 # the package needs this directory, which slim images lack
  apt_install openjdk-17-jre-headless
}

tools() {
  apt_install python3.11-venv
  python3.11 -m venv "$TOOLS"
  # The build system of the wheel, from pyproject.toml.
  build_requires | xargs "$TOOLS/bin/pip" install --quiet
}

dependencies() { # PART
  python3.11 -m venv --without-pip "$TARGET"
  python3.11 "$SOURCE/images/locked.py" "$SOURCE" "$1" >/tmp/requirements.txt
  # pyspark is published as a source distribution only.
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

# Without dependency resolution: exactly the locked packages are installed.
install_with() { # PIP-ARGUMENT...
  "$TOOLS/bin/pip" --python "$TARGET/bin/python" install --quiet --no-deps --no-compile \
    --only-binary :all: "$@"
}

# Bytecode that is not checked against its source, so it does not depend on file times.
compile() { # DIRECTORY
  # A package may contain files that this version of Python cannot compile.
  python3.11 -m compileall -q -f --invalidation-mode unchecked-hash "$1" >/dev/null 2>&1 || true
}

"$@"
