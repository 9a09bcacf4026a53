"""Operations on the token bucket and on both dispatch limiters, in virtual time."""

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from benchmarks.java_vectors.draws import drawn, often

_SECOND = 1_000_000_000
_STARTS = (0, 987_654_321, 12_345_678_901)
#: Operations; one that is listed several times is drawn more often.
_OF_A_BUCKET = (
    *("at",) * 3,
    *("consume",) * 2,
    *("tokens", "contains", "consumeAndCheck", "throttle", "throttleFor"),
)
_OF_A_LIMITER = (*("at",) * 3, *("consume",) * 3, *("available",) * 2, "rates", "update", "publish")


def _later(random: Random, now: int, step: int) -> int:
    """A moment at or after now, often exactly at a step or one nanosecond beside it."""
    jump = random.choice(
        (
            0,
            1,
            step - 1,
            step,
            step + 1,
            step // 2,
            2 * step,
            10 * step,
            random.randint(0, 3 * step),
        )
    )
    return now + max(0, jump)


def _bucket(random: Random, nasty: bool) -> dict[str, Any]:
    rate = random.choice((1, 3, 10, 100, 1000, 999_999, 10**9, random.randint(1, 10**7)))
    period = random.choice((_SECOND, _SECOND, 10 * _SECOND, 60 * _SECOND, _SECOND // 10))
    resolution = random.choice((16_000_000, _SECOND, period, 1, 999_999))
    case: dict[str, Any] = {
        "rate": rate,
        "ratePeriodNanos": period,
        "resolutionNanos": resolution,
        "startNanos": random.choice(_STARTS),
    }
    dynamic = often(random, 0.2)
    if dynamic:
        case["dynamic"] = True
    else:
        case |= (
            {"capacity": random.choice((rate, rate * 2, rate * 5, max(1, rate // 2)))}
            if often(random, 0.3)
            else {}
        )
        case |= (
            {"initialTokens": random.choice((0, 1, rate, rate // 2))} if often(random, 0.3) else {}
        )
    operations: list[list[Any]] = []
    now = case["startNanos"]
    for _ in range(random.randint(1, 60)):
        kind = random.choice(_OF_A_BUCKET)
        if kind == "at":
            now = _later(random, now, random.choice((resolution, period, max(1, period // rate))))
            operations.append(["at", now])
        elif kind in ("tokens", "contains", "throttle"):
            operations.append([kind])
        else:
            operations.append(
                [
                    kind,
                    random.choice(
                        (
                            1,
                            rate,
                            rate + 1,
                            2 * rate,
                            max(1, rate // 2),
                            random.randint(1, 3 * rate),
                        )
                    ),
                ]
            )
        if dynamic and often(random, 0.1):
            operations.append(["rate", random.choice((1, rate * 2, max(1, rate // 3), rate + 1))])
    return {**case, "ops": operations}


def _rate(random: Random) -> dict[str, Any]:
    rate: dict[str, Any] = {
        "msg": random.choice((-1, 0, 1, 10, 100, 33)),
        "byte": random.choice((-1, 0, 1, 1024, 1_000_000)),
    }
    if often(random, 0.6):
        rate["period"] = random.choice(
            (1, 1, 2, 10, 60, 0) if often(random, 0.2) else (1, 2, 10, 60)
        )
    if often(random, 0.4):
        rate["relative"] = True
    return rate


def _publish(random: Random) -> tuple[float, float]:
    return round(random.random() * 60, random.choice((0, 2))), float(random.randint(0, 10**6))


def _limiter(random: Random, nasty: bool) -> dict[str, Any]:
    case: dict[str, Any] = {"startNanos": random.choice(_STARTS)}
    keys = {
        "dispatchThrottlingRateInMsg": (0, 10, 100),
        "dispatchThrottlingRateInByte": (0, 1_000_000),
    }
    case["conf"] = drawn(random, keys) if often(random, 0.3) else {}
    topic = not case["conf"]
    if topic:
        messages, bytes_ = _publish(random)
        case |= {"rate": _rate(random), "publish": {"msg": messages, "byte": bytes_}}
    now, operations = case["startNanos"], list[list[Any]]()
    for _ in range(random.randint(1, 60)):
        kind = random.choice(_OF_A_LIMITER)
        if kind == "at":
            now = _later(random, now, random.choice((_SECOND, _SECOND, _SECOND // 2, 10 * _SECOND)))
            operations.append(["at", now])
        elif kind == "consume":
            operations.append(
                [
                    "consume",
                    random.choice((0, 1, 3, 10, 11, 100, 101, 300)),
                    random.choice((0, 1, 1024, 1_000_000)),
                ]
            )
        elif kind in ("available", "rates"):
            operations.append([kind])
        elif kind == "update" and often(random, 0.4):
            rate = _rate(random)
            # A broker has no publish rate of its own; Java's bucket divides by zero then.
            operations.append(["update", rate if topic else {**rate, "relative": False}])
        elif kind == "publish" and topic:
            operations.append(["publish", *_publish(random)])
    return {**case, "ops": operations}


DRAWS: Mapping[str, Callable[[Random, bool], dict[str, Any]]] = MappingProxyType(
    {
        "AsyncTokenBucket": _bucket,
        "DispatchRateLimiterAsyncTokenBucket": _limiter,
        "DispatchRateLimiterClassic": _limiter,
    }
)
