"""Pages of docs agree with the program: commands, settings, defaults, examples, tables."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.commands.notify import rules_of
from pulsar_rebalancer.cli.main import COMMANDS as COMMAND_NAMES
from pulsar_rebalancer.decisions.notices.notice_rules import NoticeMemory, after_records
from pulsar_rebalancer.settings.merge_sources import load
from pulsar_rebalancer.settings.setting_paths import Leaf, all_leaves
from sinks.metrics.http_server_and_probes import Liveness, process_registry
from sinks.metrics.page_metrics import PageMetrics
from sinks.metrics.service_metrics import (
    AdviceMetrics,
    CollectorMetrics,
    DiskMetrics,
    ExecutorMetrics,
    NotifierMetrics,
)
from sinks.notices.delivery import Delivery, Notice, as_json, as_slack
from sinks.notices.settings import KINDS, NoticeSettings, webhook
from sinks.wire.record_decoding import decode_round
from strategies.cluster.budget import HOUR_MS
from strategies.fold.warm_start_length import warm_window_ms
from streaming.job_metrics import JobMetrics
from tests.architecture.command_line import unknown_options
from tests.architecture.readme import shown_commands
from tests.unit.command_line import rebalancer
from tests.unit.strategies_page import PAGE as STRATEGIES
from tests.unit.strategies_page import rows
from tools.servers.webhook import Delivered, listening

ROOT = Path(__file__).parents[2]
PAGES = ("OPERATIONS", "DEPLOYMENT", "TOPICS", "PULSAR_CLUSTER", "TROUBLESHOOTING")
#: All five pages; the trial of OPERATIONS.md is the first settings file.
PAGE = "\n".join((ROOT / f"docs/{page}.md").read_text("utf-8") for page in PAGES)
GROUPS = ("config", "topics", "jars")
EXIT_CODES = {name: value for name, value in vars(exit_codes).items() if name.isupper()}
COMMANDS = [
    part
    for shown in shown_commands(PAGE + (ROOT / "docs/APPROVALS.md").read_text("utf-8"))
    for part in shown.command.split(" | ")
    if part.startswith("rebalancer ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_knows_its_options(command: str) -> None:
    words = tuple(shlex.split(command))
    positions = 3 if words[1] in (*GROUPS, "plans") else 2
    assert unknown_options(words, positions=positions) == []


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    trial, *others = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for shown in (*others, trial):
        file.write_text(shown, "utf-8")
        load(file)
    assert load(file).job.checkpoint == "/tmp/trial/checkpoint"


def test_the_exit_codes_of_the_page_and_of_the_help_are_those_of_the_program() -> None:
    codes = set(EXIT_CODES.values())
    help_text = rebalancer("--help").words.partition("Exit codes: ")[2].partition(".")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == codes
    assert {int(code) for code in re.findall(r"\b(\d+) [a-z]", help_text)} == codes


@pytest.mark.parametrize("command", [name for name in COMMAND_NAMES if name not in GROUPS])
def test_the_help_of_a_command_names_exit_codes_that_exist(command: str) -> None:
    told = r"[Ee]xit code (\d+)|, (\d+) (?:after|when)|; (\d+):"
    found = re.findall(told, rebalancer(command, "--help").words)
    codes = {int(code) for groups in found for code in groups if code}
    assert codes <= set(EXIT_CODES.values())


def test_an_exit_code_that_nothing_uses_is_gone() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "pulsar_rebalancer").rglob("*.py"))
    assert {name for name in EXIT_CODES if f"exit_codes.{name}" not in code} <= {"OK"}


#: How the pages name the default of a setting; the first group is the value. A blank is any white
#: space: lines are wrapped.
CLAIMS = {
    "shedding.steady.rest_minutes": r"stays for this time; the default is (\d+)",
    "job.shuffle_partitions": r"With (\d+), the default, one task",
    "job.trigger_ms": r"`job\.trigger_ms` \|[^`]*?\| (\d+) ms, the default \|",
    "kafka.outage_ms": r"After `kafka\.outage_ms` without an answer \((10 minutes)\)",
}
#: Lines with a figure and the word default that name no setting's default.
OTHER_LINES = ("spark-defaults", "Kafka's default", "Pulsar's default")


@pytest.mark.parametrize(("path", "claim"), CLAIMS.items())
def test_a_default_that_the_pages_name_is_that_of_the_setting(path: str, claim: str) -> None:
    (found,) = places(claim)
    number, _, unit = found[1].partition(" ")
    assert load().value(path) == int(number) * {"": 1, "minutes": 60_000}[unit]


def test_the_hours_of_a_warm_start_are_those_of_the_page() -> None:
    (found,) = places(r"that is ([\d.]+) hours, and ([\d.]+) hours for SteadyShedder")
    engines = [load(flags=[f"shedding.strategy={one}"]).engine for one in ("threshold", "steady")]
    hours = [f"{warm_window_ms(engine) / HOUR_MS:.1f}" for engine in engines]
    assert hours == [*found.groups()]


def test_every_figure_that_the_pages_call_a_default_is_compared() -> None:
    compared = [found.span() for claim in CLAIMS.values() for found in places(claim)]
    left = [
        line[0]
        for line in re.finditer(r"^(?=.*\d).*default.*$", PAGE, re.MULTILINE)
        if not any(start < line.end() and end > line.start() for start, end in compared)
        and not any(one in line[0] for one in OTHER_LINES)
    ]
    assert left == []


def places(claim: str) -> list[re.Match[str]]:
    return list(re.finditer(claim.replace(" ", r"\s+"), PAGE, re.DOTALL))


NOTICES, METRICS = (
    (ROOT / f"docs/{page}.md").read_text("utf-8") for page in ("NOTICES", "METRICS")
)
RECORDING = ROOT / "tests/data/recordings/modular-broker-joins.jsonl.gz"
LINK = "notices.link=http://rebalancer.example:8080/"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", NOTICES, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def notice(tmp_path_factory: pytest.TempPathFactory) -> Notice:
    """The only notice of the recording with UniformLoadShedder."""
    out = tmp_path_factory.mktemp("notices") / "replayed"
    rebalancer("replay", RECORDING, "--set", "shedding.strategy=uniform", "--out", out)
    rounds = [decode_round(line) for line in (out / "rounds.jsonl").read_bytes().splitlines()]
    _, (found,) = after_records(NoticeMemory(begun=0), rounds, rules_of(load(None, {}, [LINK])))
    return found


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


@pytest.mark.parametrize(("section", "page"), [("notices", NOTICES), ("metrics", METRICS)])
def test_the_tables_list_every_setting_with_its_default(section: str, page: str) -> None:
    found = dict(re.findall(rf"^\| `{section}\.(\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    assert {key: value.strip("`").replace(",", "") for key, value in found.items()} == {
        leaf.key: str(leaf.default).lower().replace(",", "") or "none"
        for leaf in all_leaves()
        if leaf.section == section
    }


def test_the_table_lists_every_kind() -> None:
    named = NOTICES.split("\n## What is sent\n")[1].split("\n## ")[0]
    kinds = re.findall(r"^\| `([\w-]+)`", named, re.MULTILINE)
    assert {*kinds} >= {*KINDS, "ended", "test"} - {"balanced", "acting", "waiting"}


LIVENESS = Liveness(60, "a test")
SUFFIXES = {"counter": "_total", "info": "_info"}

Row = tuple[str, str, tuple[str, ...]]


def listed(heading: str) -> list[Row]:
    """Name, type and labels of each row below a heading."""
    section = METRICS.split(f"\n## {heading}")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(pulsar_\w+)` \| (\w+) \| ([^|]+) \|", section, re.MULTILINE)
    return sorted(
        (name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows
    )


def registered(registry: CollectorRegistry) -> list[Row]:
    """Name, type and labels of each metric of a registry."""
    found: list[Any] = list(registry._collector_to_names)
    return sorted(
        (one._name + SUFFIXES.get(one._type, ""), one._type, tuple(one._labelnames))
        for one in found
    )


def of_all_processes(_: CollectorRegistry) -> CollectorRegistry:
    registry = process_registry("0.1.0")
    DiskMetrics(registry, {"executor.state": Path("/")})
    return registry


@pytest.mark.parametrize(
    ("heading", "register"),
    [
        ("Job", lambda registry: JobMetrics(registry, 0, LIVENESS)),
        ("Collector", lambda registry: CollectorMetrics(registry, ["c"], LIVENESS)),
        ("Notifier", lambda registry: NotifierMetrics(registry, LIVENESS)),
        ("Executor", lambda registry: ExecutorMetrics(registry, "c", LIVENESS)),
        ("Advice", lambda registry: AdviceMetrics(registry, LIVENESS)),
        ("Live page", lambda registry: PageMetrics(registry, LIVENESS)),
        ("All processes", of_all_processes),
    ],
)
def test_the_page_lists_every_metric(
    heading: str, register: Callable[[CollectorRegistry], object]
) -> None:
    registry = CollectorRegistry()
    made = register(registry)
    assert listed(heading) == registered(made if isinstance(made, CollectorRegistry) else registry)


def test_the_page_lists_the_alerts_of_the_rules_with_a_section_each() -> None:
    file = yaml.safe_load((ROOT / "docker/prometheus/rules.yml").read_text("utf-8"))
    rules = file["groups"][0]["rules"]
    section = METRICS.split("\n## Alerts")[1].split("\n## ")[0]
    found = re.findall(r"^\| `(PulsarRebalancer\w+)` \| (\w+) \| (\w+) \|", section, re.MULTILINE)
    assert found == [(one["alert"], one["labels"]["severity"], one["for"]) for one in rules]
    headings = re.findall(r"^### (.+)$", section, re.MULTILINE)
    anchors = [f"docs/METRICS.md#{heading.lower().replace(' ', '-')}" for heading in headings]
    assert anchors == [rule["annotations"]["runbook"] for rule in rules]


SECTIONS = {
    "limits": "## Limits",
    "capacities": "## What brokers are compared by",
    "rivals": "## Rivals",
    "bulkhead": "## Quota",
    "throttling": "## Throttle advice",
    "filters": "## Filters",
    "splitting": "## Splitting bundles: when",
    "placement": "## Placement",
}
LEAVES = [leaf for leaf in all_leaves() if leaf.section in SECTIONS]


def told(leaf: Leaf) -> tuple[str, str]:
    """Default and Pulsar's key in the row of a setting."""
    section = STRATEGIES.split(f"\n{SECTIONS[leaf.section]}\n")[1].split("\n## ")[0]
    rows_of_it = [row for row in rows(section) if f"`{leaf.key}`" in row[0] and len(row) == 4]
    return rows_of_it[0][1], rows_of_it[0][2]


def shown_newer(leaf: Leaf) -> str:
    """The default of the newest Pulsar release, if it differs."""
    if not leaf.defaults:
        return ""
    value = leaf.defaults["5.0"]
    return f" (5.0: {str(value).lower() if isinstance(value, bool) else f'{value:g}'})"


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.path)
def test_a_setting_stands_in_its_table(leaf: Leaf) -> None:
    default, key = told(leaf)
    assert key == (f"`{leaf.setting.pulsar}`" if leaf.setting.pulsar else "–")
    newer = shown_newer(leaf)
    assert default.endswith(newer)
    default = default.removesuffix(newer)
    if isinstance(leaf.default, bool):
        assert default == str(leaf.default).lower()
    elif leaf.default == "":
        assert default in ("none", "always")
    else:
        assert default.replace(",", "") == (
            leaf.default if isinstance(leaf.default, str) else f"{leaf.default:.12g}"
        )


@pytest.mark.parametrize("strategy", ["avg", "uniform"])
def test_the_tables_of_strategies_have_the_default_of_the_newest_release(strategy: str) -> None:
    of_it = [leaf for leaf in all_leaves() if leaf.section == f"shedding.{strategy}"]
    (leaf,) = [leaf for leaf in of_it if leaf.defaults]
    assert leaf.key == "max_unload"
    defaults = [row[1] for row in rows(STRATEGIES) if row[:1] == ["`max_unload`"]]
    assert defaults == [f"{leaf.default:g}{shown_newer(leaf)}"] * 2
