"""One back-test of a recording."""

from pulsar_rebalancer.lab.backtest.run import BacktestJob, BacktestResult, run_together


def run(job: BacktestJob, *, leap: bool = True) -> BacktestResult:
    """`leap`: as in `ColumnarFold`."""
    (answer,) = run_together([job], leap=leap)
    return answer
