"""The token bucket of dispatch limits, in integer tokens and nanoseconds.

Source of the rule: `AsyncTokenBucket` of Pulsar 4.2.4 (PIP-322 in its form since 4.0.3). A charge
only records a debt; tokens are added when a dispatcher checks the bucket, at most once per
resolution. The time of each check is an argument; the state of the bucket is data.
"""

from dataclasses import dataclass, replace

from strategies.errors import ContractError

SECOND_NS = 1_000_000_000
#: Java's maximum waiting time, 292 years.
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BucketRate:
    """The rate of a bucket: `tokens` per `period_ns`. The bucket holds at most `burst` (default:
    the tokens of one period).

    `resolution_ns`: minimum time between two additions; dispatch limiters use the period itself, so
    tokens are added in one step. The time that an addition consumes is rounded down, so
    part of it counts twice.
    """

    tokens: int
    period_ns: int = SECOND_NS
    resolution_ns: int = SECOND_NS
    burst: int | None = None

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.period_ns < 1 or self.resolution_ns < 0:
            raise ContractError(
                f"a bucket needs at least 1 token per period of at least 1 ns, got {self}; "
                "leave out limits of 0"
            )

    @property
    def capacity(self) -> int:
        """Maximum number of tokens in the bucket."""
        return self.tokens if self.burst is None else self.burst

    @property
    def token_ns(self) -> int:
        """Time per token, rounded down."""
        return self.period_ns // self.tokens

    @property
    def target(self) -> int:
        """Balance up to which a throttled dispatcher waits: 1 % of the capacity, at least one
        token.
        """
        return max(1, int(self.capacity * 0.01))


@dataclass(frozen=True, slots=True)
class Bucket:
    """State of a bucket: tokens when it was last filled, charges since then, and leftover time that
    is too short for a token.
    """

    tokens: int
    pending: int
    filled_ns: int
    remainder_ns: int

    @property
    def balance(self) -> int:
        """Tokens left; negative after charges above the balance."""
        return self.tokens - self.pending


def charge(bucket: Bucket, tokens: int) -> Bucket:
    """The bucket after a charge. Accepts any number of tokens."""
    return replace(bucket, pending=bucket.pending + tokens)


def fill(bucket: Bucket, rate: BucketRate, now_ns: int, charged: int = 0) -> Bucket:
    """The bucket as a dispatcher sees it at `now_ns`: with new tokens, if the last addition is at
    least one resolution ago.

    `charged`: tokens that the same call charges.
    """
    if not _due(bucket, rate, now_ns):
        return charge(bucket, charged)
    elapsed = now_ns - bucket.filled_ns + bucket.remainder_ns
    new = elapsed * rate.tokens // rate.period_ns
    filled = replace(bucket, filled_ns=now_ns, remainder_ns=elapsed - _time_used(new, rate))
    if new == 0:
        return charge(filled, charged)
    if new == bucket.pending and not charged:
        return replace(
            filled, pending=0
        )  # Java keeps the balance, even above a capacity that was lowered
    # Tokens pay the debt before the capacity applies: those added while the bucket was in debt are
    # not lost.
    return replace(
        filled, tokens=min(bucket.tokens + new - bucket.pending, rate.capacity) - charged, pending=0
    )


def throttling_ns(bucket: Bucket, rate: BucketRate, wanted: int | None = None) -> int:
    """Time until the balance of a filled bucket is `wanted` tokens (default: the rate's target); 0
    if it already is.
    """
    missing = (rate.target if wanted is None else wanted) - bucket.balance
    return min(max(0, missing) * rate.period_ns // rate.tokens, _LONG_MAX)


def _time_used(tokens: int, rate: BucketRate) -> int:
    return tokens * rate.period_ns // rate.tokens


def _due(bucket: Bucket, rate: BucketRate, now_ns: int) -> bool:
    """Whether tokens are due: in a slow bucket once a token is complete, in a fast one strictly
    after its resolution (Java's `>`).
    """
    if rate.token_ns > rate.resolution_ns:
        # Leftover time can be worth a token, because `token_ns` is rounded down or the rate was
        # raised: Java waits for a later check.
        return now_ns - bucket.filled_ns >= max(1, rate.token_ns - bucket.remainder_ns)
    return now_ns - bucket.filled_ns > rate.resolution_ns
