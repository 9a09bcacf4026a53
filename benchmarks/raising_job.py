"""`python -m benchmarks.raising_job --set NAME=VALUE …`: `rebalancer run` with the tests' strategy
whose rounds raise for one cluster.
"""

import argparse

from pulsar_rebalancer.settings.merge_sources import load
from streaming.job import run_job
from tests.raising_strategy import WITH_RAISING


def main() -> None:
    """Runs until it is stopped."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.raising_job")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    settings = load(None, {}, parser.parse_args().set, WITH_RAISING)
    run_job(settings.job, settings.engine, log=print)


if __name__ == "__main__":
    main()
