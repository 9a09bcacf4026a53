"""What `rebalancer status` prints at one time is in status.txt: a cluster before and after its
first round, with outcomes, drains, rejected records, and what is old, missing or of other versions.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.decisions.read_status import Pause, read_status
from pulsar_rebalancer.decisions.status_screen import status_lines
from sinks.topics.topic_settings import Connections
from sinks.wire.event_to_topic_rows import encode_rejected
from sinks.wire.record_decoding import Origin, Position, decode_command, decode_round
from sinks.wire.record_encoding import encode_outcome, encode_round
from strategies.cluster.round_figures import Certificate
from strategies.errors import WireError
from strategies.settings import RoundSettings
from tests.changed_records import changed
from tests.control_topic import Control, outcome
from tests.golden.printed import compare, steady, titled
from tests.telemetry_lines import T0, intent, load_report, sweep
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven

_FILE = Path(__file__).with_name("status.txt")
#: A while after the last of five minutes of `uneven`.
LATER = T0 + 260_000


class Topics(Control):
    """The topics of an installation in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir()

    def decide(self, lines: Sequence[bytes], words: Iterable[str] = EAGER_WORDS) -> None:
        """Publishes telemetry, and the commands and rounds of a job that has read it."""
        out = self.folder / "replay"
        rebalancer("replay", recorded(self.folder, lines), "--out", out, *words)
        self.write("telemetry", lines)
        for kind in ("commands", "rounds"):
            self.write(kind, (out / f"{kind}.jsonl").read_bytes().splitlines())

    def screen(self, now_ms: int = LATER, pause: bool | None = False) -> str:
        found = read_status(Connections(topics=self.topics), now_ms)
        file = Pause(Path("/x/pause"), pause)
        lines = [*status_lines(found, file, now_ms, RoundSettings()), *found.skipped, "\n"]
        return steady("\n".join(lines), self.folder.parent)


def before_the_first_round(topics: Topics) -> Iterator[str]:
    topics.write("telemetry", uneven(rounds=1))
    yield topics.screen(T0 + 30_000)


def five_rounds_and_an_outcome(topics: Topics) -> Iterator[str]:
    topics.decide(uneven(rounds=5))
    yield topics.screen(pause=None)
    first, second, *_ = map(decode_command, topics.read("commands"))
    refused = outcome(first, "refused", "paused: this executor is paused")
    topics.write("outcomes", [encode_outcome(refused)])
    yield topics.screen(pause=True)
    yield topics.screen(second.expires_at_ms)
    yield topics.screen(LATER + 3_600_000)


def a_state_that_lasts(topics: Topics) -> Iterator[str]:
    topics.decide(uneven(rounds=5), words=())
    yield topics.screen()


def bounds(topics: Topics) -> Iterator[str]:
    """A bound is shown if it says more than that no spread is below 0."""
    topics.decide(uneven(rounds=5))
    newest = decode_round(topics.read("rounds")[-1])
    for number, best in enumerate((0.0, 0.0004, 0.05), 6):
        certificate = Certificate(0.062, best, 0.0, 0.0)
        bounded = replace(newest, round=number, certificate=certificate)
        topics.write("rounds", [encode_round(bounded)])
        yield topics.screen()


def drains(topics: Topics) -> Iterator[str]:
    """One that lasts, and one that is refused, which is not shown."""
    lines = uneven(rounds=5)
    lines[3:3] = [intent(61, broker="hot:1"), intent(62, broker="no:1", id="0b" * 16)]
    topics.decide(lines)
    yield topics.screen()


def missing_reports_and_a_clock_ahead(topics: Topics) -> Iterator[str]:
    missing = {f"b{number}:1": "timed out" for number in range(5)}
    topics.write("telemetry", [load_report("a:1", 9_000), sweep(1, "a:1", missing=missing)])
    yield topics.screen(T0 + 2_000)


def rejected_records(topics: Topics) -> Iterator[str]:
    origin = Origin(Position("file:///t", 0, 0), b"{}", 2)
    reasons = (("clock-ahead", "c"), ("not-json", ""), ("clock-ahead", "c"))
    topics.write(
        "rejected",
        [encode_rejected(WireError(code, "No."), origin, cluster) for code, cluster in reasons],
    )
    yield topics.screen()


def resources_that_are_not_measured(topics: Topics) -> Iterator[str]:
    unknown = {"usage": 0.5, "limit": -1000.0}
    lines = uneven(rounds=5)
    for place, line in enumerate(lines):
        if json.loads(line).get("broker") == "idle:1":
            lines[place] = changed(line, "report", "bandwidthIn", to=unknown)
    topics.decide(lines)
    yield topics.screen()


def foreign_and_older_records(topics: Topics) -> Iterator[str]:
    topics.decide(uneven(rounds=5))
    newest = decode_round(topics.read("rounds")[-1])
    older = replace(newest, round=newest.round + 1, state=None, version="0.0.9")
    topics.write("rounds", [encode_round(older), b"not json"])
    topics.write("telemetry", [b"[]", b"\xff", b'{"cluster": 7}'])
    topics.write("rejected", [b"{}"])
    yield topics.screen()


STORIES: tuple[Callable[[Topics], Iterator[str]], ...] = (
    before_the_first_round, five_rounds_and_an_outcome, a_state_that_lasts, bounds, drains,
    missing_reports_and_a_clock_ahead, rejected_records, resources_that_are_not_measured,
    foreign_and_older_records,
)  # fmt: skip


@pytest.mark.heavy
def test_status_prints_what_the_file_says(tmp_path: Path, rewrite: bool) -> None:
    parts: list[str] = []
    for story in STORIES:
        parts += [titled(story), *story(Topics(tmp_path / story.__name__))]
    compare(_FILE, parts, rewrite)
