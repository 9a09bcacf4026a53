"""Records the load of each broker: one sample per period, without jumps of usage that traffic does
not explain, and with the moves since then counted in.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from strategies.load_history import LARGEST, LoadHistory, LoadLevel, LoadSample, RecentMove
from strategies.model import BrokerLoad

#: Number of samples in memory: five blocks of four.
SAMPLES = 20
#: Number of levels in memory, and the weight that further samples do not increase.
LEVELS, LEVEL_WEIGHT = 10, 5.0
#: Traffic that differs by less than this part is on the same level.
SAME_LEVEL = 0.08
#: A jump of usage (fraction) that is not believed the first time, while traffic changes by less
#: than this part.
JUMP, STANDSTILL = 0.10, 0.10
#: Traffic that changes by more than this factor from one sample to the next is a step.
STEP = 1.5
#: A jump is measured from the last sample and from the median of this many; with fewer samples than
#: the second number, none of them is known to be usual.
_RECENT, _COMPARED_FROM = 9, 3
#: A report that ends less than this number of periods after a change mixes the time before and
#: after it: the broker's period may have begun almost one period before, and its report may be
#: polled one period later.
MIXED = 1.5
#: Of a broker without a report.
NO_SAMPLES = LoadHistory()
#: Weights of the newest samples in a broker's load: what alternates from sample to sample cancels
#: out, a step shows after two samples.
_WEIGHTS = (0.375, 0.5, 0.125)
#: `LoadSample(…)` takes four times as long. Every round makes a few for each of thousands of
#: brokers, which is most of what it costs: loops over figures are written out for the same reason.
_new = tuple.__new__


def recorded(
    broker: BrokerLoad, usage: float, history: LoadHistory | None, now_ms: int, period_ms: float
) -> LoadHistory:
    """The history after a round in which the broker has this usage (fraction)."""
    old = NO_SAMPLES if history is None else history
    if broker.settling:
        return old
    at_ms = now_ms if broker.reported_at_ms is None else broker.reported_at_ms
    traffic = broker.figures.traffic
    sample = _new(
        LoadSample,
        (
            at_ms,
            usage,
            traffic.msg_throughput_in + traffic.msg_throughput_out,
            traffic.msg_rate_in + traffic.msg_rate_out,
        ),
    )
    return continued(old, sample, broker.figures.bundle_count, broker.fresh, period_ms)


def continued(
    old: LoadHistory, sample: LoadSample, bundles: int, fresh: bool, period_ms: float
) -> LoadHistory:
    """The history after a report with this load and number of bundles. A report that is not a new
    sample, or mixes the time before and after a change, adds nothing.
    """
    samples, levels, changed_at_ms, old_bundles, _ = old
    at_ms, usage, throughput, rate = sample
    if not (0.0 <= usage <= LARGEST and 0.0 <= throughput <= LARGEST and 0.0 <= rate <= LARGEST):
        sample = LoadSample(at_ms, _bounded(usage), _bounded(throughput), _bounded(rate))
        _, usage, throughput, rate = sample
    if not samples:
        return LoadHistory((sample,), _levels(levels, sample), changed_at_ms, bundles)
    last = samples[-1]
    last_at_ms, last_usage, last_throughput, last_rate = last
    if at_ms <= last_at_ms or (not fresh and at_ms - last_at_ms < 0.75 * period_ms):
        return old
    if changed_at_ms >= 0 and at_ms < changed_at_ms + MIXED * period_ms:
        return old if bundles == old_bundles else old._replace(bundles=bundles)
    if bundles != old_bundles and not _stands_still(sample, last):
        # Bundles came or left: older samples show another set, this one shows a mixture.
        return LoadHistory((), levels, at_ms, bundles)
    if abs(usage - last_usage) > JUMP and _is_doubtful(sample, old):
        # Not believed the first time.
        kept = _appended(samples, sample._replace(usage=last_usage), period_ms)
        return LoadHistory(kept, levels, changed_at_ms, bundles, True)
    is_step = (
        throughput > STEP * last_throughput
        or last_throughput > STEP * throughput
        or rate > STEP * last_rate
        or last_rate > STEP * rate
    )
    if not is_step:  # at a step, usage may be a period older than traffic
        levels = _levels(levels, sample)
    added = _appended(samples, sample, period_ms)
    return _new(LoadHistory, (added, levels, changed_at_ms, bundles, False))


def _bounded(figure: float) -> float:
    return min(figure, LARGEST) if figure > 0 else 0.0


def counted(history: LoadHistory, move: RecentMove, sign: int) -> LoadHistory:
    """The history with a move counted in: all samples become what they would have been after it.
    `sign`: −1 for the source, +1 for the destination.
    """
    usage = move.destination_gains if sign > 0 else move.source_loses
    return history._replace(
        samples=tuple(
            LoadSample(
                one.at_ms,
                max(0.0, one.usage + sign * usage),
                max(0.0, one.throughput + sign * move.throughput),
                max(0.0, one.msg_rate + sign * move.msg_rate),
            )
            for one in history.samples
        ),
        changed_at_ms=max(history.changed_at_ms, move.at_ms),
        bundles=max(0, history.bundles + sign),
    )


def judged(history: LoadHistory) -> Sequence[LoadSample]:
    """The samples that show the broker after its last change, newest last."""
    if not history.samples or history.samples[0].at_ms > history.changed_at_ms:
        return history.samples
    return [one for one in history.samples if one.at_ms > history.changed_at_ms]


def load_of(history: LoadHistory) -> LoadSample | None:
    """The weighted mean of the newest samples, of those after the last change if there are two;
    None without a sample.
    """
    shown = judged(history)
    newest = (shown if len(shown) > 1 else history.samples)[: -len(_WEIGHTS) - 1 : -1]
    if not newest:
        return None
    weights = _WEIGHTS[: len(newest)]
    total = sum(weights)
    usage, throughput, rate = (
        sum(weight * float(one[figure]) for weight, one in zip(weights, newest, strict=True))
        / total
        for figure in (1, 2, 3)
    )
    return LoadSample(newest[0].at_ms, usage, throughput, rate)


def _appended(
    samples: tuple[LoadSample, ...], sample: LoadSample, period_ms: float
) -> tuple[LoadSample, ...]:
    """The samples with one more; reports of the same period become one sample, weighted by time.
    The first sample keeps its time: with a later one, frequent reports would never be two samples.
    """
    if len(samples) > 1:
        before, last = samples[-2:]
        if sample.at_ms - before.at_ms <= 1.25 * period_ms:
            part = (sample.at_ms - last.at_ms) / (sample.at_ms - before.at_ms)
            return samples[:-1] + (_between(last, sample, part, sample.at_ms),)  # noqa: RUF005
    elif samples and sample.at_ms - samples[0].at_ms < 0.5 * period_ms:
        return (_between(samples[0], sample, 0.5, samples[0].at_ms),)
    return samples[-SAMPLES + 1 :] + (sample,)  # noqa: RUF005


def _between(one: LoadSample, other: LoadSample, part: float, at_ms: int) -> LoadSample:
    """The sample at this part of the way from one to the other, with this time."""
    return LoadSample(
        at_ms, *(low + (high - low) * part for low, high in zip(one[1:], other[1:], strict=True))
    )


def _is_doubtful(sample: LoadSample, old: LoadHistory) -> bool:
    """Whether usage jumps while traffic stands still, and did not do so the last time. The return
    to what most of the recent samples show is no jump: a spike lasts no longer than it did.
    """
    if old.doubted or len(old.samples) < _COMPARED_FROM:
        return False
    usual = median(one.usage for one in old.samples[-_RECENT:])
    return abs(sample.usage - usual) > JUMP and _stands_still(sample, old.samples[-1])


def _stands_still(sample: LoadSample, last: LoadSample) -> bool:
    return all(
        abs(new - old) <= STANDSTILL * max(new, old)
        for new, old in ((sample.throughput, last.throughput), (sample.msg_rate, last.msg_rate))
    )


def _levels(levels: tuple[LoadLevel, ...], sample: LoadSample) -> tuple[LoadLevel, ...]:
    """The levels with one more sample: averaged into the newest one if the traffic is the same."""
    _, usage, throughput, rate = sample
    if levels:
        old_throughput, old_rate, old_usage, weight = levels[-1]
        more, faster = throughput - old_throughput, rate - old_rate
        same = abs(more) <= SAME_LEVEL * (throughput if more > 0 else old_throughput)
        if same and abs(faster) <= SAME_LEVEL * (rate if faster > 0 else old_rate):
            weight = weight + 1.0 if weight < LEVEL_WEIGHT else LEVEL_WEIGHT
            level = _new(
                LoadLevel,
                (
                    old_throughput + more / weight,
                    old_rate + faster / weight,
                    old_usage + (usage - old_usage) / weight,
                    weight,
                ),
            )
            return levels[:-1] + (level,)  # noqa: RUF005
    return (*levels[-LEVELS + 1 :], LoadLevel(throughput, rate, usage, 1.0))
