"""A cluster that floods the job, or sends poison, changes no byte of the others."""

import json
from collections.abc import Collection
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from strategies.settings import BulkheadSettings
from tests.replayed import Published
from tests.spark.workshop import Workshop, by_kind_and_cluster, eager, uneven
from tests.telemetry_lines import line, load_report

NAMES = [f"cluster-{number}" for number in range(10)]
BAD = NAMES[4]
#: Room for the three brokers' own records, three passes a minute.
ENGINE = replace(
    eager(), bulkhead=BulkheadSettings(records=20, records_per_broker=1, bytes=200_000)
)


def flood(at: float) -> list[bytes]:
    """What the bad cluster sends beside each of its records: too many, torn, and large ones."""
    return [
        *(load_report("b0:8080", at + i / 100, cluster=BAD) for i in range(10)),
        line("load-report", at, cluster=BAD, report=[[[]]]),
        line("note", at, cluster=BAD, report="x" * 300_000),
    ]


def all_lines(*, bad: bool) -> list[bytes]:
    columns = zip(*(uneven(12, name) for name in NAMES), strict=True)
    found: list[bytes] = []
    for i, some in enumerate(columns):
        found += some
        if bad:
            found += flood(20 * (1 + i // 4))
    return found


def of(published: Published, names: Collection[str]) -> Published:
    kept = {
        kind: [value for value in values if json.loads(value)["cluster"] in names]
        for kind, values in published.items()
    }
    return by_kind_and_cluster(kept)


@pytest.mark.parametrize(
    ("partitions", "records"),
    [
        (3, 150),
        pytest.param(1, 50, marks=pytest.mark.slow),
        pytest.param(1, 1_000, marks=pytest.mark.slow),
    ],
)
def test_the_others_have_the_bytes_of_a_run_without_it(
    spark: SparkSession, workshop: Workshop, partitions: int, records: int
) -> None:
    undisturbed = Workshop(workshop.folder / "undisturbed")
    undisturbed.put(all_lines(bad=False))
    workshop.put(all_lines(bad=True))
    workshop.drain(spark, ENGINE, shuffle_partitions=partitions, max_records_per_batch=records)
    published = workshop.published()
    others = [name for name in NAMES if name != BAD]
    expected = undisturbed.expected(ENGINE)
    assert of(published, others) == of(expected, others)
    assert of(published, others)["commands"]
    assert of(published, [BAD]) == of(workshop.expected(ENGINE), [BAD])
    states = [json.loads(one)["state"]["code"] for one in of(published, [BAD])["rounds"]]
    assert "set-aside" in states
    codes = [json.loads(one)["code"] for one in of(published, [BAD])["rejected"]]
    assert codes.count("over-quota") >= 3
    assert len(codes) < 48, "the poison beyond the quota has no rows of its own"
