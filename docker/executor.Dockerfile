# What needs no Spark and no Java: collector, executor, notifier, live page, and commands about topics such as status and explain. The
# laboratory (replay, backtest, simulate …) is in the image of the job.
# From the project folder:  docker build -f docker/executor.Dockerfile -t pulsar-rebalancer-executor:0.2.0 .

FROM python:3.11.13-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/rebalancer
ENV PATH=/opt/rebalancer/bin:$PATH
COPY requirements/executor.lock requirements/executor.lock
RUN pip install --no-cache-dir --require-hashes -r requirements/executor.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY strategies strategies
COPY sinks sinks
COPY streaming streaming
COPY pulsar_rebalancer pulsar_rebalancer
RUN rm -r pulsar_rebalancer/lab \
    && pip install --no-cache-dir --no-deps .

FROM python:3.11.13-slim-bookworm
RUN useradd --uid 10001 --create-home rebalancer \
    && install --directory --owner=rebalancer --group=rebalancer /var/lib/pulsar-rebalancer
COPY --from=build /opt/rebalancer /opt/rebalancer
COPY docker/rebalancer.toml /etc/pulsar-rebalancer/rebalancer.toml
ENV PATH=/opt/rebalancer/bin:$PATH
USER 10001
WORKDIR /var/lib/pulsar-rebalancer
VOLUME /var/lib/pulsar-rebalancer
# Checks that the installation is complete; progress is visible on the topics.
HEALTHCHECK --interval=60s --timeout=10s CMD ["rebalancer", "--version"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["rebalancer"]
CMD ["--help"]
