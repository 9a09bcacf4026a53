"""What a micro-batch of given size takes, of the job and of pass-throughs, on the same records in
turns.

All queries read one topic. Whatever has been published is processed by one query after the other,
in an order that turns around every time, so that what else the machine does falls on all of them.
The first micro-batch of every turn is not counted, nor are the first turns: a job runs for weeks,
and it takes Java some hundred micro-batches to compile what it runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from benchmarks.figures import Sample, sample
from benchmarks.fleet import Fleet
from benchmarks.kafka_queries import Query
from benchmarks.kafka_records import Publisher, passes


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """ms of `counted` micro-batches with `records` each."""

    query: str
    records: int
    counted: int
    batch_ms: Sample

    @property
    def per_second(self) -> float:
        """Records that the query sustains."""
        return self.records * 1e3 / self.batch_ms.median


def in_turns(
    queries: Sequence[Query],
    telemetry: str,
    fleet: Fleet,
    records: int,
    *,
    warm_ups: int,
    turns: int,
    batches: int,
) -> Iterator[list[BatchTimes]]:
    """`turns` turns count, after `warm_ups` that do not, of `batches` micro-batches each, after one
    that does not.

    Yields all that has been measured after every turn that counts.
    """
    taken: dict[str, list[float]] = {query.name: [] for query in queries}
    stream = passes(fleet)
    with Publisher(telemetry) as publisher:
        for turn in range(warm_ups + turns):
            publisher.publish(islice(stream, records * (batches + 1)))
            for query in queries if turn % 2 else reversed(queries):
                whole = [batch.took_ms for batch in query.drain() if batch.records == records]
                if len(whole) != batches + 1:
                    raise AssertionError(
                        f"{query.name} was to process {batches + 1} micro-batches of "
                        f"{records} records, not {len(whole)}"
                    )
                taken[query.name] += whole[1:] if turn >= warm_ups else []
            if turn >= warm_ups:
                yield [
                    BatchTimes(name, records, len(times), sample(times))
                    for name, times in taken.items()
                ]
