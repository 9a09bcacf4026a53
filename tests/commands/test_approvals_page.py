"""docs/APPROVALS.md: what it shows is what the commands print, its settings are settings, and its
tables of codes are those of the rules.
"""

import ast
import re
from dataclasses import replace
from pathlib import Path

from pulsar_rebalancer.settings.merge_sources import load
from strategies.cluster.model import Expected
from tests.architecture.layers import parsed
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.command_line import Answer
from tests.unit.executor_lives import ONE, TWO
from tests.unit.test_cli_plans import Operator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/APPROVALS.md").read_text("utf-8")
#: Parts that differ from run to run.
CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z| UTC)"), "TIME"),
    (re.compile(r"3\.17-[0-9a-f]{12}"), "3.17-ID"),
    (re.compile(r"in \d+ ms"), "in N ms"),
    (re.compile(r"\b\d+ (s|min)\b"), "N \\1"),
    (re.compile(r" {2,}"), "  "),
    (re.compile(r"─+"), "─"),
)


def plain(line: str) -> str:
    for pattern, name in CHANGING:
        line = pattern.sub(name, line)
    return line.rstrip()


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "settings.toml").write_text(shown, "utf-8")
    settings = load(tmp_path / "settings.toml")
    assert settings.executor.approval == "required"
    assert settings.engine.round.cool_down_ms > settings.engine.round.command_ttl_ms


def test_the_example_is_what_the_commands_print(tmp_path: Path) -> None:
    printed = set(a_run(tmp_path))
    blocks = re.findall(r"```console\n(.*?)```", PAGE.split("## Decide")[1], re.DOTALL)
    assert any("$ " in block for block in blocks)
    for block in blocks:
        for line in block.splitlines():
            assert line.startswith("$ ") or plain(line) in printed, line


def a_run(folder: Path) -> list[str]:
    """The story of the page on a fake cluster; all lines that its commands print."""
    printed: list[str] = []
    with FakePulsar(Cluster()) as pulsar:
        one, two, three = pulsar.cluster.brokers
        pulsar.cluster.owners.update({ONE: one, TWO: one})
        operator = Operator(Control(folder))

        def types(*words: object) -> Answer:
            answer = operator.types(*words)
            text = answer.out + answer.err
            for number, broker in enumerate(pulsar.cluster.brokers, start=1):
                text = text.replace(broker, f"broker-{number}:8080")
            printed.extend(map(plain, text.splitlines()))
            return answer

        at = f"pulsar.admin_urls={pulsar.admin_urls}"
        execute = ("execute", "--once", "--apply", "--set", at)
        first = command(ONE, one, two, epoch=3, round=17, strategy="steady/fixed")
        first = replace(
            first,
            code="above-average",
            text="broker-1:8080 is at 80.0 %, 25.0 points above broker-2:8080",
            expected=Expected(0.8, 0.7, 0.55, 0.65),
            expires_at_ms=first.issued_at_ms + 1_800_000,
        )
        second = replace(
            first,
            id="second",
            bundle=TWO,
            destination=three,
            text="broker-1:8080 is at 70.0 %, 10.0 points above broker-3:8080",
            expected=Expected(0.7, 0.65, 0.6, 0.65),
        )
        operator.decides(first, second)
        for words in (
            execute,
            ("plans", "list"),
            ("plans", "show", "3.17"),
            ("plans", "approve", "3.17", "--reason", "fits before the sale", "--by", "anna"),
            execute,
            ("plans", "list"),
            ("plans", "deny", "3.17", "--reason", "second thoughts"),
            ("plans", "pause", "--reason", "upgrade of the brokers", "--by", "bo"),
            execute,
            ("plans", "list"),
            ("plans", "resume", "--reason", "upgrade done", "--by", "bo"),
        ):
            types(*words)
    return printed


def test_the_page_lists_every_code_of_an_answer() -> None:
    tree = parsed(ROOT / "strategies" / "executor" / "objections_to_approvals.py")
    places = {"_refused": 0, "ApprovalObjection": 1}
    codes = {
        given.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        for given in node.args[places.get(node.func.id, len(node.args)) :][:1]
        if isinstance(given, ast.Constant)
    }
    table = PAGE.split("## Answers")[1].split("## Limits")[0]
    rows = [row for row in table.splitlines() if row.startswith(("| `refused`", "| `expired`"))]
    shown = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row.split("|")[2])}
    # Without a key no record is read at all.
    assert shown == codes - {"unchecked"}
