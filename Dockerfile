# syntax=docker/dockerfile:1
# The images of the worker, the operator, and the pipeline's jobs:
#
#   docker build --target worker   --tag dedupestream/worker:0.1.0 .
#   docker build --target operator --tag dedupestream/operator:0.1.0 .
#   docker build --target pipeline --tag dedupestream/pipeline:0.1.0 .
#
# Behind a package index of your own: --secret id=pip.conf,src=$HOME/.config/pip/pip.conf

FROM debian:bookworm-slim AS base
RUN --mount=type=bind,source=images,target=/build/images \
    /build/images/install.sh base

FROM base AS tools
RUN --mount=type=bind,source=images,target=/build/images \
    --mount=type=bind,source=pyproject.toml,target=/build/pyproject.toml \
    --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    /build/images/install.sh tools

# A change of our own code leaves the dependencies as they are.
FROM tools AS worker-files
RUN --mount=type=bind,source=images,target=/build/images \
    --mount=type=bind,source=pyproject.toml,target=/build/pyproject.toml \
    --mount=type=bind,source=requirements.lock,target=/build/requirements.lock \
    --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    /build/images/install.sh dependencies worker
RUN --mount=type=bind,target=/build \
    /build/images/install.sh code worker

FROM tools AS operator-files
RUN --mount=type=bind,source=images,target=/build/images \
    --mount=type=bind,source=pyproject.toml,target=/build/pyproject.toml \
    --mount=type=bind,source=requirements.lock,target=/build/requirements.lock \
    --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    /build/images/install.sh dependencies operator
RUN --mount=type=bind,target=/build \
    /build/images/install.sh code operator

FROM base AS java
RUN --mount=type=bind,source=images,target=/build/images \
    /build/images/install.sh java

FROM java AS pipeline-tools
RUN --mount=type=bind,source=images,target=/build/images \
    --mount=type=bind,source=pyproject.toml,target=/build/pyproject.toml \
    --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    /build/images/install.sh tools

FROM pipeline-tools AS pipeline-files
RUN --mount=type=bind,source=images,target=/build/images \
    --mount=type=bind,source=pyproject.toml,target=/build/pyproject.toml \
    --mount=type=bind,source=requirements.lock,target=/build/requirements.lock \
    --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    /build/images/install.sh dependencies pipeline
RUN --mount=type=bind,target=/build \
    /build/images/install.sh code pipeline
# What would be downloaded at the first start, which has no place to put it.
RUN DEDUPESTREAM_CACHE=/opt/dedupestream/cache /opt/dedupestream/bin/python -c \
    'from dedupe_pipeline.runtime.jars import spark_kafka; spark_kafka()' && \
    rm -rf /opt/dedupestream/cache/ivy && chmod -R a+rX /opt/dedupestream/cache

FROM base AS worker
COPY --from=worker-files /opt/dedupestream /opt/dedupestream
ENV PATH=/opt/dedupestream/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["dedupe-worker"]

FROM base AS operator
COPY --from=operator-files /opt/dedupestream /opt/dedupestream
ENV PATH=/opt/dedupestream/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["dedupe-operator"]

FROM java AS pipeline
COPY --from=pipeline-files /opt/dedupestream /opt/dedupestream
ENV PATH=/opt/dedupestream/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 \
    DEDUPESTREAM_CACHE=/opt/dedupestream/cache
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["dedupe-pipeline"]
