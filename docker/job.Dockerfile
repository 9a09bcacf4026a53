# The streaming job, and the Spark master and worker it may run on: one image, so that Python, Java and Spark are the same everywhere.
# From the project folder:  docker build -f docker/job.Dockerfile -t pulsar-rebalancer-job:0.2.0 .

FROM python:3.11.13-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/rebalancer
ENV PATH=/opt/rebalancer/bin:$PATH
# Dependencies first: they change less often than the code.
COPY requirements/job.lock requirements/job.lock
RUN pip install --no-cache-dir --require-hashes -r requirements/job.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY strategies strategies
COPY sinks sinks
COPY streaming streaming
COPY pulsar_rebalancer pulsar_rebalancer
# The jars of Spark's Kafka connector have the digests of the lock; a container then needs no network for them.
RUN pip install --no-cache-dir --no-deps . \
    && rebalancer jars fetch /opt/rebalancer/jars

FROM python:3.11.13-slim-bookworm
# Debian keeps only the newest build of a version, so a pinned version would not be installable later. procps: the health check's pgrep.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home rebalancer \
    && install --directory --owner=rebalancer --group=rebalancer /var/lib/pulsar-rebalancer
COPY --from=build /opt/rebalancer /opt/rebalancer
COPY docker/rebalancer.toml /etc/pulsar-rebalancer/rebalancer.toml
# Spark's workers must run the interpreter that has the same packages as the driver.
ENV PATH=/opt/rebalancer/bin:$PATH \
    PYSPARK_PYTHON=/opt/rebalancer/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/rebalancer/bin/python \
    REBALANCER_JARS__FOLDER=/opt/rebalancer/jars
USER 10001
WORKDIR /var/lib/pulsar-rebalancer
VOLUME /var/lib/pulsar-rebalancer
# The command line runs as long as the container; this check detects that Spark's Java process has died.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s CMD ["pgrep", "--full", "org.apache.spark.deploy"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["rebalancer"]
CMD ["run", "--config", "/etc/pulsar-rebalancer/rebalancer.toml"]
