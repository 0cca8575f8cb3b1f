# A stock Connect worker with the Mirror Bridge plugin. Build from the root of the repository:
#   docker build -f deploy/worker.Dockerfile -t mirror-bridge-worker .

# To build from what you looked at, give both with their digests, as in service.Dockerfile.
ARG BUILD_IMAGE=maven:3.9-eclipse-temurin-17
ARG RUN_IMAGE=apache/kafka:4.3.1

FROM ${BUILD_IMAGE} AS shim
WORKDIR /src
COPY LICENSE ./
COPY connectors connectors
COPY java-shim java-shim
RUN mvn -B -q -f java-shim/pom.xml package -DskipTests
WORKDIR /plugins
RUN jar xf /src/java-shim/target/mirror-bridge-connect-*.zip

FROM ${RUN_IMAGE}
# For the health check, and for who wants to ask Connect from in here: the image has no certain HTTP client of its own.
USER root
RUN apk add --no-cache curl
# The worker does not start without the folder that its properties allow (config.providers.directory).
RUN mkdir /keys
USER appuser
COPY --from=shim /plugins /opt/kafka/plugins
COPY deploy/worker.properties /opt/kafka/config/worker.properties
EXPOSE 8083
# Connect is healthy when it is in its group and has read its topics (3.9 and newer).
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s \
    CMD [ "curl", "--silent", "--fail", "--noproxy", "*", "--output", "/dev/null", "http://localhost:8083/health" ]
# KAFKA_HEAP_OPTS sizes the worker, CONNECT_* fill deploy/worker.properties.
ENTRYPOINT [ "/opt/kafka/bin/connect-distributed.sh", "/opt/kafka/config/worker.properties" ]
