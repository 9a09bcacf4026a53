"""docs/NOTICES.md: its examples are notices of a recording, both ways to verify a signature accept
a delivery and nothing else, and its tables list every setting and kind.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.commands.notify import rules_of
from pulsar_rebalancer.decisions.notices.decide import NoticeMemory, after_records
from pulsar_rebalancer.settings.leaves import all_leaves
from pulsar_rebalancer.settings.load import load
from sinks.notices.delivery import Delivery, Notice, as_json, as_slack
from sinks.notices.settings import KINDS, NoticeSettings, webhook
from sinks.wire.codec import decode_round
from tests.unit.command_line import rebalancer
from tests.webhook import Delivered, listening

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "NOTICES.md").read_text("utf-8")
RECORDING = ROOT / "tests/data/recordings/modular-broker-joins.jsonl.gz"
LINK = "notices.link=http://rebalancer.example:8080/"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@cache
def example(folder: Path) -> Notice:
    """The only notice of the recording with UniformLoadShedder."""
    out = folder / "replayed"
    rebalancer("replay", RECORDING, "--set", "shedding.strategy=uniform", "--out", out)
    rounds = [decode_round(line) for line in (out / "rounds.jsonl").read_bytes().splitlines()]
    _, (notice,) = after_records(NoticeMemory(begun=0), rounds, rules_of(load(None, {}, [LINK])))
    return notice


@pytest.fixture(scope="module")
def notice(tmp_path_factory: pytest.TempPathFactory) -> Notice:
    return example(tmp_path_factory.mktemp("notices"))


def test_the_examples_are_the_notice_in_both_forms(notice: Notice) -> None:
    plain, slack = blocks("json")
    assert json.loads(plain) == json.loads(as_json(notice))
    assert json.loads(slack) == json.loads(as_slack(notice))


@pytest.fixture
def delivered(notice: Notice, tmp_path: Path) -> Delivered:
    """A signed delivery; key and body are in files of the folder."""
    (tmp_path / "notices-key").write_text("a-key-of-a-test-0123456789\n")
    with listening() as hook:
        settings = NoticeSettings(url=hook.url, key_file=str(tmp_path / "notices-key"))
        sending = Delivery(webhook(settings), settings, lambda _: True, lambda _: None)
        assert sending.deliver(notice) == "delivered"
    (tmp_path / "body").write_bytes(hook.received[0].body)
    return hook.received[0]


@pytest.mark.parametrize("forged", [False, True])
@pytest.mark.parametrize("language", ["python", "bash"])
def test_the_ways_to_verify_a_signature(
    delivered: Delivered, tmp_path: Path, language: str, *, forged: bool
) -> None:
    (check,) = blocks(language)
    names = {"id": "webhook-id", "time": "webhook-timestamp", "signature": "webhook-signature"}
    values = {name: delivered.headers[header] for name, header in names.items()}
    if forged:
        (tmp_path / "body").write_bytes(delivered.body.replace(b"prod", b"prot") + b" ")
    if language == "bash":
        program, verdict = ["bash", "-c"], f"{check.rstrip()} && echo good || echo bad"
        given = "".join(f"{name}='{value}'\n" for name, value in values.items())
    else:
        program, verdict = [sys.executable, "-c"], f"{check}\nprint('good' if genuine else 'bad')"
        given = f"headers = {dict(delivered.headers)!r}\nbody = open('body', 'rb').read()\n"
    said = subprocess.run(
        [*program, given + verdict], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout.split()[-1] == ("bad" if forged else "good")


def test_the_tables_list_every_setting_and_kind() -> None:
    rows = dict(re.findall(r"^\| `notices\.(\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    assert {key: value.strip("`").replace(",", "") for key, value in rows.items()} == {
        leaf.key: str(leaf.default).replace(",", "") or "none"
        for leaf in all_leaves()
        if leaf.section == "notices"
    }
    named = PAGE.split("\n## What is sent\n")[1].split("\n## ")[0]
    kinds = re.findall(r"^\| `([\w-]+)`", named, re.MULTILINE)
    assert {*kinds} >= {*KINDS, "ended", "test"} - {"balanced", "acting", "waiting"}
