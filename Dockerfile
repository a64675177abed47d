# syntax=docker/dockerfile:1
# pdwatch in a container: no root, a root file system that may be read-only, no shell needed to start it.
#   docker build -t pdwatch:0.1.0 .
#   docker run --rm -p 127.0.0.1:9838:9838 -p 127.0.0.1:9900:9900 --read-only --cap-drop ALL pdwatch:0.1.0       (the demo)
#   docker run --rm -p 127.0.0.1:9838:9838 -v ./pdwatch.yaml:/etc/pdwatch/pdwatch.yaml:ro --read-only --cap-drop ALL \
#       pdwatch:0.1.0 run -c /etc/pdwatch/pdwatch.yaml
#
# The base is pinned by tag. To pin it by digest, so that a rebuild is the same to the bit:
#   docker buildx imagetools inspect python:3.13-slim-bookworm --format '{{.Manifest.Digest}}'
#   docker build --build-arg PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:... -t pdwatch:0.1.0 .
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/pdwatch
COPY pyproject.toml README.md LICENSE ./
COPY agent ./agent
RUN /opt/pdwatch/bin/pip install '.[otlp,grpc]' \
    # pip itself is not needed to run, and what is not there needs no patch.
    && /opt/pdwatch/bin/pip uninstall --yes pip

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="pdwatch" \
      org.opencontainers.image.description="Observability and SLA watchdog for vLLM deployments with separate prefill and decode pools" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/pdwatch /opt/pdwatch
# A named volume that is mounted here takes over this owner. Numbers, so that Kubernetes can tell that it is not root.
RUN install --directory --owner=65532 --group=65532 --mode=0750 /var/lib/pdwatch
ENV PATH=/opt/pdwatch/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PDWATCH_LISTEN=:9838
USER 65532:65532
WORKDIR /var/lib/pdwatch
EXPOSE 9838 9900
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9838/-/healthy', timeout=4)"]
ENTRYPOINT ["pdwatch"]
CMD ["demo", "--listen", ":9838", "--fleet-listen", ":9900"]
