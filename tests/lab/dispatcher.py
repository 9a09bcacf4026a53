"""Whoever looks into a token bucket and takes from it, for stories and properties of buckets."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import (
    SECOND_NS,
    Bucket,
    BucketRate,
    charge,
    fill,
    full,
)


@dataclass
class Dispatcher:
    """Looks into a bucket and takes from it; time only goes forward."""

    rate: BucketRate
    bucket: Bucket
    now_ns: int = 0

    def after(self, seconds: float, nanos: int = 0) -> int:
        """The balance that much later."""
        self.now_ns += int(seconds * SECOND_NS) + nanos
        self.bucket = fill(self.bucket, self.rate, self.now_ns)
        return self.bucket.balance

    def takes(self, tokens: int) -> int:
        """The balance after a charge."""
        self.bucket = charge(self.bucket, tokens)
        return self.bucket.balance


def dispatcher(rate: BucketRate) -> Dispatcher:
    return Dispatcher(rate, full(rate, 0))
