"""Records the load of each broker: one sample per period, without jumps of usage that traffic does
not explain, and with the moves since then counted in.
"""

from collections.abc import Sequence
from statistics import median

import numpy as np

from strategies.bundles import (
    RATE_IN,
    RATE_OUT,
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    BundleLoads,
    Floats,
)
from strategies.cluster.model import BrokerLoad
from strategies.ordered_sum import ordered_sum
from strategies.shedding.steady.memory_format import (
    LARGEST,
    LEVEL_BYTES,
    ROW_BYTES,
    LoadHistory,
    LoadSample,
    RecentMove,
    columns,
    packed,
    packed_level,
    rows,
    unpacked_at,
    unpacked_level,
)

#: Number of samples in memory: five blocks of four.
SAMPLES = 20
#: Number of levels in memory, and the weight that further samples do not increase.
LEVELS, LEVEL_WEIGHT = 10, 5.0
#: Levels without a sample for this long are forgotten, but never the newest one. The means of a
#: level begin again every four hours (of UTC), so that a warm start learns them to the bit, however
#: rare reports are.
LEVEL_AGE_MS, LEVEL_MS = 28_800_000, 14_400_000
#: Traffic that differs by less than this part is on the same level.
SAME_LEVEL = 0.08
#: A jump of usage (fraction) that is not believed the first time, while traffic changes by less
#: than this part.
JUMP, STANDSTILL = 0.10, 0.10
#: Relative difference up to which the newest figures and the averages add up to the same load:
#: their sums then do not show which of them is the present load.
ALIKE = 0.02
#: Traffic that changes by more than this factor from one sample to the next is a step.
STEP = 1.5
#: A jump is measured from the last sample and from the median of this many; with fewer samples than
#: the second number, none of them is known to be usual.
_RECENT, _COMPARED_FROM = 9, 3
#: A changed number of bundles explains a change of traffic that is larger than this many times the
#: usual one: the median from sample to sample.
UNUSUAL = 3.0
#: Samples that show the same number of bundles can be compared if there are this many. They take
#: four periods after a change; a broker that has waited for more is judged by its usage: no further
#: change makes its samples begin again until its number stays the same.
ENOUGH, STARVED = 3, 5.0
#: A report that ends less than this number of periods after a change mixes the time before and
#: after it: the broker's period may have begun almost one period before, and its report may be
#: polled one period later.
MIXED = 1.5
#: Keeps a division by traffic of nothing finite.
TINY = 1e-9
#: Of a broker without a report.
NO_SAMPLES = LoadHistory()
#: Weights of the newest samples in a broker's load: what alternates from sample to sample cancels
#: out, a step shows after two samples.
_WEIGHTS = (0.375, 0.5, 0.125)
#: `LoadHistory(…)` takes three times as long. Every round makes one for each of thousands of
#: brokers, which is most of what it costs: loops over figures are written out for the same reason.
_new = tuple.__new__
#: A sample as a tuple, in the order of `LoadSample`.
_Load = tuple[float, float, float, float]


def recorded(
    broker: BrokerLoad, usage: float, history: LoadHistory | None, now_ms: int, period_ms: float
) -> LoadHistory:
    """The history after a round in which the broker has this usage (fraction)."""
    old = NO_SAMPLES if history is None else history
    if broker.settling:
        return old
    at_ms = now_ms if broker.reported_at_ms is None else broker.reported_at_ms
    traffic = broker.figures.traffic
    load = (
        at_ms,
        usage,
        traffic.msg_throughput_in + traffic.msg_throughput_out,
        traffic.msg_rate_in + traffic.msg_rate_out,
    )
    new = continued(old, load, broker.figures.bundle_count, broker.fresh, period_ms)
    # Costs are learned from measured figures only.
    return new._replace(packed_levels=_kept(old.packed_levels, at_ms)) if broker.estimated else new


def continued(
    old: LoadHistory, load: _Load, bundles: int, fresh: bool, period_ms: float
) -> LoadHistory:
    """The history after a report with this load (as in `LoadSample`) and number of bundles. A
    report that is not a new sample, or mixes the time before and after a change, adds nothing.
    """
    samples, levels, changed_at_ms, old_bundles, _, waited, recounted_at_ms = old
    at_ms, usage, throughput, rate = load
    if not (0.0 <= usage <= LARGEST and 0.0 <= throughput <= LARGEST and 0.0 <= rate <= LARGEST):
        usage, throughput, rate = _bounded(usage), _bounded(throughput), _bounded(rate)
        load = (at_ms, usage, throughput, rate)
    recounted = bundles != old_bundles
    if not samples:
        return _begun(old, load, bundles, period_ms)
    last = unpacked_at(samples, len(samples) - ROW_BYTES)
    last_at_ms = last[0]
    if at_ms <= last_at_ms or (not fresh and at_ms - last_at_ms < 0.75 * period_ms):
        return old
    if recounted:
        recounted_at_ms = int(at_ms)
    if changed_at_ms >= 0 and at_ms < changed_at_ms + MIXED * period_ms:
        return old._replace(bundles=bundles, recounted_at_ms=recounted_at_ms) if recounted else old
    levels = _kept(levels, at_ms)
    if waited:
        waited += min(1.0, (at_ms - last_at_ms) / period_ms)
    if recounted and waited < STARVED and _is_explained(load, samples):
        # Bundles came or left: older samples show another set, this one shows a mixture.
        return LoadHistory(b"", levels, int(at_ms), bundles, False, waited or 1.0, recounted_at_ms)
    if _was_silent(samples, at_ms, last_at_ms, period_ms):
        return LoadHistory(packed(*load), _levels(levels, load), changed_at_ms, bundles)
    load, levels, doubted = _believed(load, last, old, levels)
    added = _appended(samples, load, last, period_ms)
    if waited and _are_enough(added, max(changed_at_ms, recounted_at_ms)):
        waited = 0.0
    return _new(
        LoadHistory, (added, levels, changed_at_ms, bundles, doubted, waited, recounted_at_ms)
    )


def _believed(
    load: _Load, last: tuple[float, ...], old: LoadHistory, levels: bytes
) -> tuple[_Load, bytes, bool]:
    """The load with the usage that is believed, the levels with it, and whether it is doubted."""
    at_ms, usage, throughput, rate = load
    _, last_usage, last_throughput, last_rate = last
    if abs(usage - last_usage) > JUMP and _is_doubtful(load, old):  # not believed the first time
        return (at_ms, last_usage, throughput, rate), levels, True
    is_step = (
        throughput > STEP * last_throughput
        or last_throughput > STEP * throughput
        or rate > STEP * last_rate
        or last_rate > STEP * rate
    )
    # At a step, usage may be a period older than traffic.
    return load, levels if is_step else _levels(levels, load), False


def _begun(old: LoadHistory, load: _Load, bundles: int, period_ms: float) -> LoadHistory:
    """The history with its first sample."""
    at_ms, waited, recounted_at_ms = load[0], old.waited, old.recounted_at_ms
    if waited:
        waited += min(1.0, (at_ms - old.changed_at_ms) / period_ms)
        recounted_at_ms = recounted_at_ms if bundles == old.bundles else int(at_ms)
    levels = _levels(_kept(old.packed_levels, at_ms), load)
    return LoadHistory(
        packed(*load), levels, old.changed_at_ms, bundles, False, waited, recounted_at_ms
    )


def by_usage(history: LoadHistory) -> bool:
    """Whether a broker's number of bundles changes so often that its usage counts as it is."""
    return history.waited >= STARVED


def _is_explained(load: _Load, samples: bytes) -> bool:
    """Whether bundles that came or left explain how the traffic changes: by more than it does from
    sample to sample.
    """
    figures = columns(samples)[:, 2:]
    older, newer = figures[:-1], figures[1:]
    usual = np.zeros(2)
    if len(figures) >= _COMPARED_FROM:
        larger = np.maximum(np.maximum(older, newer), TINY)
        usual = np.median(np.abs(newer - older) / larger, axis=0)
    now, last = np.array(load[2:]), figures[-1]
    limits = np.maximum(STANDSTILL, UNUSUAL * usual) * np.maximum(now, last)
    return bool((np.abs(now - last) > limits).any())


def _are_enough(samples: bytes, since_ms: int) -> bool:
    """Whether enough samples are newer than this."""
    first = len(samples) - ENOUGH * ROW_BYTES
    return first >= 0 and unpacked_at(samples, first)[0] > since_ms


def _was_silent(samples: bytes, at_ms: float, last_at_ms: float, period_ms: float) -> bool:
    """Whether the broker's last sample is too old to be compared with the present. A broker that
    reports rarely is not silent.
    """
    if at_ms - last_at_ms <= SAMPLES * period_ms or len(samples) == ROW_BYTES:
        return False
    usual_ms = last_at_ms - unpacked_at(samples, len(samples) - 2 * ROW_BYTES)[0]
    return bool(at_ms - last_at_ms > SAMPLES * usual_ms)


def _bounded(figure: float) -> float:
    return min(figure, LARGEST) if figure > 0 else 0.0


def counted(history: LoadHistory, move: RecentMove, sign: int) -> LoadHistory:
    """The history with a move counted in: all samples become what they would have been after it.
    `sign`: −1 for the source, +1 for the destination.
    """
    figures = _shifted(columns(history.packed_samples), move, sign)
    return history._replace(
        packed_samples=figures.tobytes(),
        changed_at_ms=max(history.changed_at_ms, move.at_ms),
        bundles=max(0, history.bundles + sign),
    )


def uncounted(
    history: LoadHistory, move: RecentMove, sign: int, until_ms: int, bundles: int
) -> LoadHistory:
    """The history of a broker with `bundles` bundles without a move that was not carried out.
    Samples between the move and `until_ms` are estimates that include it, and go; `sign`: as when
    it was counted in.
    """
    figures = columns(history.packed_samples)
    before = figures[figures[:, 0] <= move.at_ms]
    later = figures[figures[:, 0] >= max(until_ms, move.at_ms + 1)]
    samples = _shifted(before, move, sign, -1).tobytes() + later.tobytes()
    return history._replace(packed_samples=samples, bundles=bundles)


def _shifted(figures: Floats, move: RecentMove, sign: int, times: int = 1) -> Floats:
    """Samples of a source (`sign` −1) or a destination (+1) with a move added this many times."""
    usage = move.destination_gains if sign > 0 else move.source_loses
    more = sign * times * np.array([usage, move.throughput, move.msg_rate])
    shifted = figures.copy()
    shifted[:, 1:] = np.maximum(0.0, figures[:, 1:] + more)
    return shifted


def judged(history: LoadHistory) -> Sequence[LoadSample]:
    """The samples that show the broker after its last change, newest last."""
    return [one for one in history.samples if one.at_ms > history.changed_at_ms]


def load_of(history: LoadHistory) -> LoadSample | None:
    """The weighted mean of the newest samples, of those after the last change if there are two;
    None without a sample.
    """
    newest = list(rows(history.packed_samples[-len(_WEIGHTS) * ROW_BYTES :]))[::-1]
    if not newest:
        return None
    shown = [one for one in newest if one[0] > history.changed_at_ms]
    if len(shown) > 1:
        newest = shown
    weights = _WEIGHTS[: len(newest)]
    total = ordered_sum(weights)
    usage, throughput, rate = (
        ordered_sum(weight * one[figure] for weight, one in zip(weights, newest, strict=True))
        / total
        for figure in (1, 2, 3)
    )
    return LoadSample(int(newest[0][0]), usage, throughput, rate)


def _appended(samples: bytes, load: _Load, last: tuple[float, ...], period_ms: float) -> bytes:
    """The samples with one more; reports of the same period become one sample, weighted by time.
    The first sample keeps its time: with a later one, frequent reports would never be two samples.
    """
    at_ms, count = load[0], len(samples) // ROW_BYTES
    if count > 1:
        before_at_ms = unpacked_at(samples, (count - 2) * ROW_BYTES)[0]
        if at_ms - before_at_ms <= 1.25 * period_ms:
            part = (at_ms - last[0]) / (at_ms - before_at_ms)
            return samples[:-ROW_BYTES] + _between(last, load, part, at_ms)
    elif at_ms - last[0] < 0.5 * period_ms:
        return _between(last, load, 0.5, last[0])
    return samples[-ROW_BYTES * (SAMPLES - 1) :] + packed(*load)


def _between(one: Sequence[float], other: Sequence[float], part: float, at_ms: float) -> bytes:
    """The sample at this part of the way from one to the other, with this time."""
    return packed(
        at_ms, *(low + (high - low) * part for low, high in zip(one[1:], other[1:], strict=True))
    )


def _is_doubtful(load: Sequence[float], old: LoadHistory) -> bool:
    """Whether usage jumps while traffic stands still, and did not do so the last time. The return
    to what most of the recent samples show is no jump: a spike lasts no longer than it did.
    """
    samples = list(rows(old.packed_samples[-_RECENT * ROW_BYTES :]))
    if old.doubted or len(samples) < _COMPARED_FROM:
        return False
    usual = median(usage for _, usage, _, _ in samples)
    return abs(load[1] - usual) > JUMP and _stands_still(load, samples[-1])


def _stands_still(load: Sequence[float], last: Sequence[float]) -> bool:
    """Whether throughput and message rate are about the same."""
    return all(abs(load[at] - last[at]) <= STANDSTILL * max(load[at], last[at]) for at in (2, 3))


def _kept(levels: bytes, at_ms: float) -> bytes:
    """The levels without those that are forgotten by now."""
    while len(levels) > LEVEL_BYTES and unpacked_level(levels)[4] < at_ms - LEVEL_AGE_MS:
        levels = levels[LEVEL_BYTES:]
    return levels


def _levels(levels: bytes, load: _Load) -> bytes:
    """The levels with one more sample: averaged into the newest one if the traffic is the same, or
    in its place if the means begin again.
    """
    at_ms, usage, throughput, rate = load
    if not levels:
        return packed_level(throughput, rate, usage, 1.0, at_ms)
    newest = unpacked_level(levels, len(levels) - LEVEL_BYTES)
    old_throughput, old_rate, old_usage, weight, last_at_ms = newest
    more, faster = throughput - old_throughput, rate - old_rate
    same = abs(more) <= SAME_LEVEL * (throughput if more > 0 else old_throughput)
    if same and abs(faster) <= SAME_LEVEL * (rate if faster > 0 else old_rate):
        levels = levels[:-LEVEL_BYTES]
        if at_ms // LEVEL_MS == last_at_ms // LEVEL_MS:
            weight = weight + 1.0 if weight < LEVEL_WEIGHT else LEVEL_WEIGHT
            return levels + packed_level(
                old_throughput + more / weight,
                old_rate + faster / weight,
                old_usage + (usage - old_usage) / weight,
                weight,
                at_ms,
            )
    kept = levels[-LEVEL_BYTES * (LEVELS - 1) :]
    return kept + packed_level(throughput, rate, usage, 1.0, at_ms)


def traffic(table: BundleLoads, now: LoadSample) -> tuple[Floats, Floats]:
    """float64[n] twice: bytes/s and messages/s of bundles, as the mixture of their newest figures,
    which follow a step, and of their short-term averages, which even out what alternates, that adds
    up to the broker's load `now`.
    """
    newest, average = usable(table.current), usable(table.short)
    throughput, old_throughput = (
        # Sorted, because the order of the bundles must not change a sum.
        float(np.sort(one[:, (THROUGHPUT_IN, THROUGHPUT_OUT)], axis=None).sum())
        for one in (newest, average)
    )
    part = 0.5
    if abs(throughput - old_throughput) > ALIKE * max(throughput, old_throughput):
        part = (now.throughput - old_throughput) / (throughput - old_throughput)
    mixed = average + (newest - average) * min(max(part, 0.0), 1.0)
    return both_directions(mixed)


def usable(figures: Floats) -> Floats:
    """Traffic of bundles without figures that are nonsense."""
    return np.where(np.isfinite(figures) & (figures > 0), np.minimum(figures, LARGEST), 0.0)


def both_directions(figures: Floats) -> tuple[Floats, Floats]:
    """float64[n] twice: bytes/s and messages/s of bundles, in + out."""
    throughput, rate = (
        figures[:, columns].sum(axis=1)
        for columns in ((THROUGHPUT_IN, THROUGHPUT_OUT), (RATE_IN, RATE_OUT))
    )
    return throughput, rate
