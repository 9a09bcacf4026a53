"""The token bucket of dispatch limits, in whole tokens and whole nanoseconds.

Source of the rule: `AsyncTokenBucket` of Pulsar 4.2.4 (PIP-322 in its form since 4.0.3). Charging only notes a debt; tokens arrive when
a dispatcher looks, at most once per resolution. The time of every look is an argument, what the bucket remembers is data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from strategies.errors import ContractError
from strategies.settings import Mode

SECOND_NS = 1_000_000_000
#: Where Java's waiting times end, after 292 years.
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BucketRate:
    """What a bucket gives: `tokens` per `period_ns`. It never saves up more than `burst` (default: one period's worth).

    `resolution_ns` is the shortest time between two deliveries; dispatch limiters use the period itself, so tokens arrive in one step.
    In parity mode the time a delivery uses up is rounded down as in Java, so a little is used twice; in fixed mode it is rounded up.
    """

    tokens: int
    period_ns: int = SECOND_NS
    resolution_ns: int = SECOND_NS
    burst: int | None = None
    mode: Mode = "fixed"

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.period_ns < 1 or self.resolution_ns < 0:
            raise ContractError(f"a bucket needs at least 1 token per period of at least 1 ns, got {self}; leave limits of 0 out instead")

    @property
    def capacity(self) -> int:
        """The most tokens the bucket holds."""
        return self.tokens if self.burst is None else self.burst

    @property
    def token_ns(self) -> int:
        """How long one token takes, rounded down."""
        return self.period_ns // self.tokens

    @property
    def target(self) -> int:
        """Balance up to which a throttled dispatcher waits: 1 % of the capacity, at least one token."""
        return max(1, int(self.capacity * 0.01))


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a bucket remembers: tokens when it was last filled, charges since then, and time too short for a token."""

    tokens: int
    pending: int
    filled_ns: int
    remainder_ns: int

    @property
    def balance(self) -> int:
        """Tokens left; negative after more was charged than there was."""
        return self.tokens - self.pending


def full(rate: BucketRate, now_ns: int) -> Bucket:
    """A new bucket: one period's worth of tokens, no debt."""
    return Bucket(rate.tokens, 0, now_ns, 0)


def charge(bucket: Bucket, tokens: int) -> Bucket:
    """Notes that `tokens` were used. Nothing is ever refused."""
    if tokens < 0:
        raise ContractError(f"charges are never negative, got {tokens}")
    return replace(bucket, pending=bucket.pending + tokens)


def fill(bucket: Bucket, rate: BucketRate, now_ns: int, charged: int = 0) -> Bucket:
    """The bucket as a dispatcher that looks now sees it: with the tokens that have arrived, if the last delivery is long enough ago.

    `charged`: what this look takes at the same time.
    """
    if not _due(bucket, rate, now_ns):
        return charge(bucket, charged)
    elapsed = now_ns - bucket.filled_ns + bucket.remainder_ns
    new = elapsed * rate.tokens // rate.period_ns
    filled = replace(bucket, filled_ns=now_ns, remainder_ns=elapsed - _time_used(new, rate))
    if new == 0:
        return charge(filled, charged)
    if new == bucket.pending and not charged:
        return replace(filled, pending=0)  # Java leaves the balance as it is, even above a brim that has become lower
    # Debt is paid before the brim counts: what arrived while the bucket was in debt is not lost at the brim.
    return replace(filled, tokens=min(bucket.tokens + new - bucket.pending, rate.capacity) - charged, pending=0)


def throttling_ns(bucket: Bucket, rate: BucketRate, wanted: int | None = None) -> int:
    """How long a filled bucket needs until its balance is `wanted` tokens (default: the rate's target); 0 when it is there."""
    missing = (rate.target if wanted is None else wanted) - bucket.balance
    return min(max(0, missing) * rate.period_ns // rate.tokens, _LONG_MAX)


def _time_used(tokens: int, rate: BucketRate) -> int:
    nanos = tokens * rate.period_ns
    return nanos // rate.tokens if rate.mode == "parity" else -(-nanos // rate.tokens)


def _due(bucket: Bucket, rate: BucketRate, now_ns: int) -> bool:
    """A slow bucket delivers as soon as the next token is whole; a fast one strictly after its resolution, as Java's `>` has it."""
    if rate.token_ns > rate.resolution_ns:
        # Leftover time can be worth a token, because `token_ns` is rounded down or the rate went up: Java waits for a later look.
        return now_ns - bucket.filled_ns >= max(1, rate.token_ns - bucket.remainder_ns)
    return now_ns - bucket.filled_ns > rate.resolution_ns
