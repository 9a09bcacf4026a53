"""What a person sees of moves by hand before anything is asked is in by_hand.txt."""

import re
from dataclasses import replace
from pathlib import Path

from sinks.wire.record_encoding import encode_outcome
from strategies.cluster.move_cost import MoveCost
from tests.control_topic import Control, command, outcome
from tests.golden.printed import compare, printed
from tests.telemetry_lines import bundle
from tests.unit.command_line import rebalancer
from tests.unit.folding_job import FoldingJob
from tools.processes.set_words import set_words

_FILE = Path(__file__).with_name("by_hand.txt")
_WHY = ("--reason", "new disks", "--by", "Ann")
_STORIES = (
    ("move", bundle(0)),
    ("move", bundle(0), "--to", "c:1"),
    ("move", bundle(0), "--to", "a:1"),
    ("move", bundle(0), "--to", "d:1"),
    ("move", "t/ns"),
    ("move", "t/other"),
    ("unload", "persistent://t/ns"),
    ("move", "pulsar/system/0x00000000_0x80000000"),
    ("unload", "t/ns"),
    ("unload", "t/ns", "--set", "limits.moves_per_round=1"),
    ("split", "largest"),
    ("split", "hottest", "--at", "0x400000,0x800000", "--move"),
    ("split", bundle(5), "--algorithm", "range_equally_divide", "--to", "b:1"),
    ("split", bundle(5), "--set", "limits.windows=Mon 00:00-00:01"),
    ("split", bundle(5), "--to", "b:1", "--set", "placement.overloaded_percent=25"),
    ("split", bundle(5), "--to", "c:1"),
    ("split", bundle(9)),
    ("split", bundle(1), "--at", "0x1000000"),
    ("split", bundle(1), "--at", "half"),
    ("split", bundle(1), "--at="),
    ("split", bundle(1), "--at=-5"),
    ("undo",),
    ("undo", "1"),
)


def test_all_that_is_shown_is_in_the_file(tmp_path: Path, rewrite: bool) -> None:
    control = Control(tmp_path)
    job = FoldingJob(control, ("a:1", "b:1", "c:1"))
    for _ in range(4):
        job.turn()
    done = outcome(command(bundle(5), "c:1", "a:1"), "applied")
    done = replace(done, cost=MoveCost(unowned_ms=40, first_message_ms=250, topics=3))
    control.write("outcomes", [encode_outcome(done)])
    settings = set_words(control.settings())
    told = [
        printed(" ".join(words), rebalancer(*words, *_WHY, *settings), tmp_path)
        for words in _STORIES
    ]
    compare(_FILE, (re.sub(r"20\d\d-\S+Z ", "", text) for text in told), rewrite)
