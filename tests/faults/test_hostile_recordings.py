"""Recordings with records made to cost: `rebalancer replay` reads over them, rejects each, and
decides the same.
"""

import os
import sys
from pathlib import Path

import pytest

from sinks.wire.record_decoding import decode_rejected
from tests.hostile_records import COSTLY, FAULTS, hostile
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss in KiB"),
]

_MOST_MORE = 300 * 10**6


def replay(log: Path) -> int:
    """Writes the topics to LOG.out; peak bytes of the process."""
    replaying = ("-m", "pulsar_rebalancer.cli.main", "replay", str(log), "--out", f"{log}.out")
    command = [sys.executable, *replaying, *EAGER_WORDS]
    _, status, used = os.wait4(os.posix_spawn(sys.executable, command, os.environ), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return used.ru_maxrss * 1024


def check(folder: Path, bad: list[bytes], code: str | None) -> None:
    legal = uneven()
    quiet = recorded(folder, legal, "quiet.jsonl")
    loud = recorded(folder, [legal[0], *bad, *legal[1:]], "loud.jsonl")
    more = replay(loud) - replay(quiet)
    for name in ("rounds.jsonl", "commands.jsonl"):
        assert Path(f"{loud}.out", name).read_bytes() == Path(f"{quiet}.out", name).read_bytes()
    rejected = Path(f"{loud}.out", "rejected.jsonl").read_bytes().splitlines()
    rows = [decode_rejected(line) for line in rejected]
    assert [row.size for row in rows] == [len(record) for record in bad]
    assert code is None or {row.code for row in rows} == {code}
    assert more <= _MOST_MORE


@pytest.mark.heavy
def test_records_of_20_megabytes_are_too_large_and_the_rest_is_decided_as_without_them(
    tmp_path: Path,
) -> None:
    kinds = ("towers", "distinct-keys", "wide-character")
    check(tmp_path, [hostile(kind, "no-kind", 20 * 10**6) for kind in kinds], "too-large")


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_records_of_8_megabytes_are_rejected_for_what_is_wrong_with_them(
    tmp_path: Path, fault: str
) -> None:
    check(tmp_path, [hostile(kind, fault, 8 * 2**20 - 2_000) for kind in COSTLY], None)
