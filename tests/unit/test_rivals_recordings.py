"""In recordings of real clusters, only what their notes report as an unload is a foreign move."""

import gzip
import json
from pathlib import Path

import pytest

from sinks.wire.record_decoding import decode
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Round
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import LimitSettings, RoundSettings

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests" / "data" / "recordings", ROOT.parent / "shared" / "recordings")
NAMES = sorted({path.name for folder in FOLDERS for path in folder.glob("*.jsonl.gz")})


def recording(name: str) -> Path:
    return next(folder / name for folder in FOLDERS if (folder / name).is_file())


def noted(path: Path) -> list[tuple[str, str, str]]:
    """The unloads that the notes report: bundle, from, to."""
    with gzip.open(path) as lines:
        notes = (json.loads(line) for line in lines if b'"note":"event"' in line)
        return [
            (one["bundle"], one["source"], one["destination"])
            for note in notes
            if (one := note["report"])["event"] == "unload"
        ]


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_the_unloads_of_the_notes_are_found_and_no_others(name: str) -> None:
    """Rounds without commands: what a command would have moved as well is no evidence."""
    store, path = InMemoryStore(), recording(name)
    settings = EngineSettings(
        round=RoundSettings(interval_ms=10_000), limits=LimitSettings(excluded_namespaces="*")
    )
    engine, rounds = Engine(settings), 0
    with gzip.open(path) as lines:
        for line in lines:
            events = engine.fold(decode(line.strip(), b""), store)
            rounds += sum(isinstance(event, Round) for event in events)
    moves = store.get_cluster().rivals.moves
    assert rounds > 15
    assert [(move.bundle, move.source, move.destination) for move in moves] == noted(path)


def test_the_recordings_of_the_repository_have_two_unloads() -> None:
    assert len(noted(recording("modular-broker-joins.jsonl.gz"))) == 2
    assert noted(recording("modular-broker-killed.jsonl.gz")) == []
