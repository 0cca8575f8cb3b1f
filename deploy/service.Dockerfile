# The bridge service. Build from the root of the repository:
#   docker build -f deploy/service.Dockerfile -t mirror-bridge-service .

# A tag may point at another image tomorrow. To build from what you looked at, give both with their digests:
#   --build-arg BUILD_IMAGE=python:3.11-bookworm@sha256:... --build-arg RUN_IMAGE=python:3.11-slim-bookworm@sha256:...
ARG BUILD_IMAGE=python:3.11-bookworm
ARG RUN_IMAGE=python:3.11-slim-bookworm

# The full image has the compiler that dependencies without a wheel need; it stays in this stage.
FROM ${BUILD_IMAGE} AS build
RUN python -m venv /opt/mirror-bridge
COPY deploy/service.requirements.txt /tmp/requirements.txt
RUN /opt/mirror-bridge/bin/pip install --no-cache-dir --require-hashes -r /tmp/requirements.txt
COPY pyproject.toml README.md LICENSE /src/
COPY bridge /src/bridge
COPY connectors /src/connectors
RUN /opt/mirror-bridge/bin/pip install --no-cache-dir --no-deps --no-build-isolation /src

FROM ${RUN_IMAGE}
COPY --from=build /opt/mirror-bridge /opt/mirror-bridge
# Spark, which copies records, runs on a JVM; ps is what it asks about its own memory. compose makes keys with openssl.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless openssl procps \
    && rm -rf /var/lib/apt/lists/*
# Where compiled loops are kept (docs/decisions/0016); made here, so that no copy has to wait for them.
ENV NUMBA_CACHE_DIR=/var/cache/mirror-bridge
RUN useradd --system --uid 10001 --no-create-home bridge && install --directory --owner=bridge "$NUMBA_CACHE_DIR"
USER bridge
RUN /opt/mirror-bridge/bin/python -c "import bridge.kafka.record.loops"
# Other containers have to reach it: it starts with MIRROR_BRIDGE_AUTH_TOKEN_FILE (a mounted secret) or
# MIRROR_BRIDGE_TLS_CLIENT_CA only, or with MIRROR_BRIDGE_INSECURE_NO_AUTH=true. The plugin sends secrets by HTTPS, so give
# MIRROR_BRIDGE_TLS_CERT and MIRROR_BRIDGE_TLS_KEY too.
ENV PATH=/opt/mirror-bridge/bin:$PATH \
    MIRROR_BRIDGE_HOST=0.0.0.0 \
    MIRROR_BRIDGE_PORT=8900 \
    MIRROR_BRIDGE_LOG_FORMAT=json \
    PYTHONDONTWRITEBYTECODE=1
EXPOSE 8900
# Live, not ready: an engine may end what is unhealthy, and a service that drains or starts its rounds process again is
# not to be ended. Its certificate is not looked at on the way through loopback; where clients have to show one, give the
# container a health check of your own. No proxy is asked.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD [ "/opt/mirror-bridge/bin/python", "-c", \
    "import http.client as c, os, ssl, sys; at = '127.0.0.1', int(os.environ['MIRROR_BRIDGE_PORT']); asked = c.HTTPSConnection(*at, timeout=2, context=ssl._create_unverified_context()) if os.environ.get('MIRROR_BRIDGE_TLS_CERT') else c.HTTPConnection(*at, timeout=2); asked.request('GET', '/health/live'); sys.exit(asked.getresponse().status != 200)" ]
# The exec form: SIGTERM reaches the service, which then drains.
ENTRYPOINT [ "/opt/mirror-bridge/bin/mirror-bridge" ]
CMD [ "serve" ]
