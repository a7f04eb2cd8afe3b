# syntax=docker/dockerfile:1
# The images of the worker, of the operator, and of the pipeline's jobs:
#
#   docker build --target worker   --tag dedupestream/worker:0.1.0 .
#   docker build --target operator --tag dedupestream/operator:0.1.0 .
#   docker build --target pipeline --tag dedupestream/pipeline:0.1.0 .
#
# With your own package index: --secret id=pip.conf,src=$HOME/.config/pip/pip.conf
# With your own certificate authorities, where pip.conf has cert=/etc/ssl/certs/ca-certificates.crt:
#   --secret id=ca-certificates.crt,src=/etc/ssl/certs/ca-certificates.crt
#   --secret id=cacerts,src=/etc/ssl/certs/java/cacerts (for the pipeline's jars)
#
# A step sees the repository only by COPY: builders that ignore the content of bind mounts in their
# caches would build old code.

# Debian bookworm, for the architecture of the image. A release names it by digest (make release-images).
ARG BASE=debian:bookworm-slim
ARG VERSION=0.1.0
# The commit.
ARG REVISION=unknown

FROM ${BASE} AS base
ARG TARGETARCH
# A digest of one architecture, under the label of another, would start nowhere.
RUN test "${TARGETARCH:-$(dpkg --print-architecture)}" = "$(dpkg --print-architecture)"
# Containers have a read-only file system, so Python cannot write bytecode later. It is not checked
# against its source, so it does not depend on file times. Python has files that it cannot compile.
RUN export DEBIAN_FRONTEND=noninteractive && \
    apt-get update --quiet=2 && \
    apt-get install --quiet=2 --yes --no-install-recommends \
      ca-certificates libjemalloc2 libpython3.11-stdlib python3.11-minimal tzdata >/dev/null && \
    apt-get clean && \
    rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache && \
    groupadd --gid 65532 dedupestream && \
    useradd --uid 65532 --gid 65532 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin \
      dedupestream && \
    { python3.11 -m compileall -qq -f --invalidation-mode unchecked-hash /usr/lib/python3.11 || true; }

# Apart from its users, so that only a changed requirement installs them again.
FROM base AS requirements
COPY images/__init__.py images/locked.py /build/images/
COPY pyproject.toml requirements.lock /build/
RUN mkdir /requirements && cd /build && \
    for name in build worker operator pipeline; do \
      python3.11 -m images.locked . "$name" >"/requirements/$name.txt" || exit 1; \
    done

# What builds, and is not part of an image; and the empty environment that is.
FROM base AS tools
RUN export DEBIAN_FRONTEND=noninteractive && \
    apt-get update --quiet=2 && \
    apt-get install --quiet=2 --yes --no-install-recommends python3.11-venv >/dev/null
COPY --from=requirements /requirements/build.txt /requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates.crt,target=/etc/ssl/certs/ca-certificates.crt \
    python3.11 -m venv /opt/tools && \
    /opt/tools/bin/pip --quiet install --no-deps --require-hashes --only-binary :all: \
      --requirement /requirements/build.txt && \
    python3.11 -m venv --without-pip /opt/dedupestream

FROM tools AS materials
COPY images/__init__.py images/locked.py images/sbom.py /build/images/
COPY pyproject.toml requirements.lock /build/
RUN mkdir /materials && cd /build && \
    for part in worker operator pipeline; do \
      /opt/tools/bin/python -m images.sbom . "$part" >"/materials/$part.cdx.json" || exit 1; \
    done

FROM tools AS code
COPY . /build
RUN /opt/tools/bin/pip --quiet wheel --no-index --no-deps --no-build-isolation --wheel-dir /wheel /build && \
    /opt/tools/bin/pip --quiet --python /opt/dedupestream/bin/python install --no-index --no-deps \
      --no-compile --no-warn-script-location --root /code /wheel/dedupestream-*.whl && \
    python3.11 -m compileall -qq -f --invalidation-mode unchecked-hash -s /code /code/opt/dedupestream

# Without dependency resolution: exactly the locked packages are installed.
FROM tools AS worker-dependencies
COPY --from=requirements /requirements/worker.txt /requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates.crt,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/tools/bin/pip --quiet --python /opt/dedupestream/bin/python install --no-deps --no-compile \
      --require-hashes --only-binary :all: --requirement /requirements/worker.txt && \
    { python3.11 -m compileall -qq -f --invalidation-mode unchecked-hash /opt/dedupestream/lib || true; }

FROM tools AS operator-dependencies
COPY --from=requirements /requirements/operator.txt /requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates.crt,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/tools/bin/pip --quiet --python /opt/dedupestream/bin/python install --no-deps --no-compile \
      --require-hashes --only-binary :all: --requirement /requirements/operator.txt && \
    { python3.11 -m compileall -qq -f --invalidation-mode unchecked-hash /opt/dedupestream/lib || true; }

FROM base AS worker
COPY --from=worker-dependencies /opt/dedupestream /opt/dedupestream
COPY --from=materials /materials/worker.cdx.json /opt/dedupestream/sbom.cdx.json
COPY --from=code /code/opt/dedupestream /opt/dedupestream
ENV PATH=/opt/dedupestream/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["dedupe-worker"]
# After the code: buildah takes a label from its cache although its argument has changed.
ARG BASE
ARG REVISION
ARG VERSION
LABEL org.opencontainers.image.title="dedupestream worker" \
      org.opencontainers.image.description="Removes duplicates from one partition of a Kafka topic" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.base.name=$BASE

FROM base AS operator
COPY --from=operator-dependencies /opt/dedupestream /opt/dedupestream
COPY --from=materials /materials/operator.cdx.json /opt/dedupestream/sbom.cdx.json
COPY --from=code /code/opt/dedupestream /opt/dedupestream
ENV PATH=/opt/dedupestream/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["dedupe-operator"]
ARG BASE
ARG REVISION
ARG VERSION
LABEL org.opencontainers.image.title="dedupestream operator" \
      org.opencontainers.image.description="Runs a worker for each partition of a DedupeStream on Kubernetes" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.base.name=$BASE

FROM base AS java
# The package needs the directory, which slim images lack.
RUN export DEBIAN_FRONTEND=noninteractive && \
    mkdir -p /usr/share/man/man1 && \
    apt-get update --quiet=2 && \
    apt-get install --quiet=2 --yes --no-install-recommends openjdk-17-jre-headless >/dev/null && \
    apt-get clean && \
    rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache

# pyspark is published as a source distribution only; what builds it is locked too.
FROM tools AS pipeline-dependencies
COPY --from=requirements /requirements/pipeline.txt /requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates.crt,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/tools/bin/pip --quiet wheel --no-deps --no-build-isolation --require-hashes \
      --only-binary :all: --no-binary pyspark --wheel-dir /wheels \
      --requirement /requirements/pipeline.txt && \
    /opt/tools/bin/pip --quiet --python /opt/dedupestream/bin/python install --no-index --no-deps \
      --no-compile /wheels/*.whl && \
    rm -rf /wheels && \
    { python3.11 -m compileall -qq -f --invalidation-mode unchecked-hash /opt/dedupestream/lib || true; }

# Jars that would be downloaded at the first start: containers have a read-only file system.
FROM java AS jars
COPY --from=pipeline-dependencies /opt/dedupestream /opt/dedupestream
COPY crds/dedupe_crds /build/dedupe_crds
COPY kafka/dedupe_kafka /build/dedupe_kafka
COPY pipeline/dedupe_pipeline/__init__.py pipeline/dedupe_pipeline/errors.py /build/dedupe_pipeline/
COPY pipeline/dedupe_pipeline/runtime /build/dedupe_pipeline/runtime
RUN --mount=type=secret,id=cacerts,target=/etc/ssl/certs/java/cacerts \
    cd /build && export DEDUPESTREAM_CACHE=/jars/opt/dedupestream/cache && \
    /opt/dedupestream/bin/python -c 'from dedupe_pipeline.runtime.jars import spark_kafka; spark_kafka()' && \
    rm -rf "$DEDUPESTREAM_CACHE/ivy" && chmod -R a+rX /jars

FROM java AS pipeline
COPY --from=pipeline-dependencies /opt/dedupestream /opt/dedupestream
COPY --from=jars /jars/opt/dedupestream /opt/dedupestream
COPY --from=materials /materials/pipeline.cdx.json /opt/dedupestream/sbom.cdx.json
COPY --from=code /code/opt/dedupestream /opt/dedupestream
ENV PATH=/opt/dedupestream/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 \
    DEDUPESTREAM_CACHE=/opt/dedupestream/cache
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["dedupe-pipeline"]
ARG BASE
ARG REVISION
ARG VERSION
LABEL org.opencontainers.image.title="dedupestream pipeline" \
      org.opencontainers.image.description="Spark jobs that read, land, aggregate and audit deduplicated topics" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.base.name=$BASE
