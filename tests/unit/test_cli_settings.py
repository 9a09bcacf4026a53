"""Settings: who wins, what is refused and how it is said, and the schema that goes with the
documentation.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_rebalancer.settings.leaves import Leaf, all_leaves
from pulsar_rebalancer.settings.load import Settings, load
from pulsar_rebalancer.settings.removed import REMOVED
from pulsar_rebalancer.settings.tree import json_schema
from sinks.topics.connections import Connections
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from strategies.shedding.registry import SHEDDERS
from streaming.settings import JobSettings
from tests.unit.command_line import rebalancer

ROOT = Path(__file__).parents[2]


def written(folder: Path, text: str) -> Path:
    file = folder / "settings.toml"
    file.write_text(text, "utf-8")
    return file


def complaints(*args: object, **kwargs: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(*args, **kwargs)  # type: ignore[arg-type]
    return caught.value.complaints


def test_without_any_source_everything_is_at_the_default_of_its_class() -> None:
    made = load()

    assert made.engine == EngineSettings(shedding=SHEDDERS["steady"].settings())
    assert made.job == JobSettings()
    assert {entry.kind for entry in made.entries} == {"default"}


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = written(
        tmp_path, "[round]\ninterval_ms = 1000\nlateness_ms = 1000\nstale_after_ms = 1000"
    )
    environment = {"REBALANCER_ROUND__INTERVAL_MS": "2000", "REBALANCER_ROUND__LATENESS_MS": "2000"}

    made = load(file, environment, ["round.interval_ms=3000"])

    rounds = made.engine.round
    assert (rounds.interval_ms, rounds.lateness_ms, rounds.stale_after_ms, rounds.epoch) == (
        3000,
        2000,
        1000,
        1,
    )
    assert origin(made, "round.interval_ms") == ("flag", "--set round.interval_ms")
    assert origin(made, "round.lateness_ms") == ("env", "REBALANCER_ROUND__LATENESS_MS")
    assert origin(made, "round.stale_after_ms") == ("file", str(file))
    assert origin(made, "round.epoch") == ("default", "")


def origin(made: Settings, path: str) -> tuple[str, str]:
    return next((entry.kind, entry.source) for entry in made.entries if entry.leaf.path == path)


def test_settings_of_the_chosen_strategy_reach_the_engine(tmp_path: Path) -> None:
    text = (
        '[shedding]\nstrategy = "threshold"\nmode = "parity"\n[shedding.threshold]\nhistory = '
        "0.5\n[shedding.avg]\nlow_threshold = 3"
    )

    engine = load(written(tmp_path, text)).engine

    assert (engine.strategy, engine.mode) == ("threshold", "parity")
    assert engine.shedding == SHEDDERS["threshold"].settings(history=0.5)


def test_all_complaints_come_at_once_and_begin_with_the_path(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '[round]\nepoch = 0\nlateness_ms = "soon"\n[weights]\ncpu = true\n[shedding]\nmode = '
        '"exact"',
    )

    told = complaints(
        file, {"REBALANCER_JOB__READ_TASKS": "many"}, ["wire.max_record_bytes=-1", "nonsense"]
    )

    assert told == [
        "nonsense: write it as path=value, for example round.interval_ms=30000",
        f'round.lateness_ms: must be a whole number, got "soon" ({file})',
        f"round.epoch: must be at least 1, got 0 ({file})",
        f"weights.cpu: must be a number, got true ({file})",
        f"shedding.mode: must be one of 'fixed' or 'parity', got \"exact\" ({file})",
        "wire.max_record_bytes: must be at least 1024 bytes, got -1 (--set wire.max_record_bytes)",
        'job.read_tasks: must be a whole number, got "many" (REBALANCER_JOB__READ_TASKS)',
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[round]\nintervall_ms = 1",
            "round.intervall_ms: unknown setting; did you mean round.interval_ms?",
        ),
        (
            "[shedding.agv]\nlow_threshold = 1",
            "shedding.agv.low_threshold: unknown setting; did you mean shedding.avg.low_threshold?",
        ),
        ("[shedding.avgg]", "shedding.avgg: unknown setting; did you mean shedding.avg?"),
        ("interval_ms = 1", "interval_ms: unknown setting; did you mean round.interval_ms?"),
        (
            "[qwertz]\nx = 1",
            "qwertz.x: unknown setting; `rebalancer config show` lists all settings",
        ),
        ("round = 5", "round: is a table, got 5; write its keys below [round]"),
        ("[round.epoch]\nx = 1", "round.epoch: must be a single value, got a table"),
        ("[round.epoch]", "round.epoch: must be a whole number, got a table"),
        (
            "[shedding]\nstrategy = 'avgg'",
            "shedding.strategy: must be one of 'threshold', 'avg', 'overload'",
        ),
        ("[weights]\ncpu = nan", "weights.cpu: must be a finite number, got nan"),
        ("[weights]\ncpu = inf", "weights.cpu: must be a finite number, got inf"),
        ("[weights]\ncpu = 1e300", "weights.cpu: must be at most 1000, got 1e+300"),
        ("[round]\nepoch = 1.0", "round.epoch: must be a whole number, got 1.0"),
        (
            "[round]\nepoch = 9999999999999999999",
            "round.epoch: must be at most 9007199254740992, got 9999999999999999999",
        ),
        ("[job]\nmaster = 5", "job.master: must be a string, got 5"),
        (
            "[job]\nmaster = ['a']",
            "job.master: must be a string, got a list; write several values into one string, "
            "separated by commas",
        ),
        *(
            (f"[job]\nmaster = '{typo}'", f"job.master: '{typo}' is not a master of Spark; write")
            for typo in ("", "spark:/a:7077", "sprk://a:7077", "Local[2]", "local[0]", "local[two]")
        ),
        (
            "[topics]\nrounds = 'rounds'",
            "topics.rounds: rounds: has an unknown scheme; write file:///folder",
        ),
    ],
)
def test_what_is_said_about_a_wrong_value(tmp_path: Path, text: str, told: str) -> None:
    found = complaints(written(tmp_path, text))

    assert len(found) == 1
    assert found[0].startswith(told)


def test_variables_that_look_like_settings_and_are_none() -> None:
    environment = {
        "REBALANCER_ROUND_EPOCH": "2",
        "REBALANCER_X__Y": "1",
        "REBALANCER_DEBUG": "1",
        "REBALANCER_HOME": "/",
        "PATH": "/bin",
    }

    assert complaints(None, environment) == [
        "round_epoch: the environment variable REBALANCER_ROUND_EPOCH sets nothing; did you "
        "mean REBALANCER_ROUND__EPOCH?",
        "x.y: the environment variable REBALANCER_X__Y sets nothing",
    ]


def test_texts_need_no_quotes_in_the_environment() -> None:
    made = load(
        None, {"REBALANCER_SHEDDING__STRATEGY": "threshold", "REBALANCER_JOB__CHECKPOINT": "5"}
    )

    assert made.engine.strategy == "threshold"
    assert made.job.checkpoint == "5"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[round]\nepoch = ", ":2: not TOML: Invalid value"),
        (b"[round]\n\nepoch 1", ":3: not TOML: Expected '=' after a key in a key/value pair"),
        (b"[round]\nepoch = 1\nepoch = 2\n", ":3: not TOML: Cannot overwrite a value"),
        (b"[round]\nepoch = 1\n# \xff", ":3: not UTF-8; save the file as UTF-8"),
        (b"a = " + b"[" * 9000, ":1: nested too deeply to be settings"),
    ],
)
def test_a_file_that_is_not_toml_is_named_with_its_line(
    tmp_path: Path, content: bytes, told: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(content)

    assert complaints(file) == [f"{file}{told}"]


def test_a_removed_setting_says_what_holds_instead(tmp_path: Path) -> None:
    file = written(tmp_path, "[clusters.east]\nattempts = 1\n[wire]\nkept_bytes = 7")
    sentence = (
        "was removed in 0.2.0: a call that can be repeated has three attempts, within "
        "pulsar.deadline_ms"
    )

    told = complaints(file, {"REBALANCER_PULSAR__ATTEMPTS": "1"}, ["serve.rounds=9"])

    assert [line.partition(": was removed in 0.2.0: ")[0] for line in told] == [
        "wire.kept_bytes",
        "pulsar.attempts",
        "serve.rounds",
        "clusters.east.attempts",
    ]
    assert told[1] == f"pulsar.attempts: {sentence} (REBALANCER_PULSAR__ATTEMPTS)"
    assert told[3] == f"clusters.east.attempts: {sentence} ({file})"
    assert not REMOVED.keys() & {leaf.path for leaf in all_leaves()}


def test_one_setting_decides_for_telemetry_on_any_topic() -> None:
    made = load(flags=["job.fail_on_data_loss=false"]).connections
    assert [one.fail_on_data_loss for one in (made.files, made.kafka, made.pulsar)] == [False] * 3


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert complaints(tmp_path / "none.toml") == [
        f"{tmp_path / 'none.toml'}: cannot be read (No such file or directory); check the "
        "path, or the variable REBALANCER_CONFIG"
    ]


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(b"\xef\xbb\xbf[round]\nepoch = 7")

    assert load(file).engine.round.epoch == 7


TOML_VALUES = st.sampled_from(
    [
        "1",
        "-1",
        "nan",
        "''",
        "'avg'",
        "[]",
        "{}",
        "{a = 1}",
        "true",
        "1e400",
        "1979-05-27",
        "[[1]]",
        "x",
    ]
)
TOML_KEYS = st.sampled_from(
    [
        "round",
        "round.epoch",
        "shedding",
        "shedding.strategy",
        "weights.cpu",
        "topics.rounds",
        "'a.b'",
        "job",
        '""',
    ]
)


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(st.dictionaries(TOML_KEYS, TOML_VALUES, max_size=4), st.binary(max_size=20))
def test_any_file_is_either_read_or_refused_with_complaints(
    values: dict[str, str], noise: bytes
) -> None:
    content = "\n".join(f"{key} = {value}" for key, value in values.items()).encode()

    for data in (content, content + b"\n" + noise):
        assert all(": " in complaint for complaint in complaints_about(data))


def complaints_about(data: bytes) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "settings.toml"
        file.write_bytes(data)
        try:
            load(file)
        except SettingsError as error:
            return error.complaints
    return []


@pytest.mark.parametrize("leaf", all_leaves(), ids=lambda leaf: leaf.path)
def test_a_setting_says_what_it_is(leaf: Leaf) -> None:
    assert leaf.setting.text
    assert not leaf.setting.text.endswith(".")


def test_the_schema_in_the_documentation_is_up_to_date() -> None:
    """Otherwise: rebalancer config schema > docs/schemas/settings.schema.json"""
    assert (ROOT / "docs/schemas/settings.schema.json").read_text("utf-8") == rebalancer(
        "config", "schema"
    ).out


@pytest.mark.heavy
def test_the_schema_accepts_and_refuses_as_the_settings_do() -> None:
    schema = json_schema(all_leaves())

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(
        {"round": {"epoch": 2}, "shedding": {"strategy": "avg", "avg": {"low_threshold": 1.5}}},
        schema,
    )
    wrong: object
    for wrong in (
        {"rounds": {}},
        {"round": {"epoch": 0}},
        {"shedding": {"avg": {"low": 1}}},
        {"weights": {"cpu": "1"}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_config_show_tells_value_and_origin() -> None:
    answer = rebalancer(
        "config", "show", "--changed", "--json", env={"REBALANCER_ROUND__EPOCH": "4"}
    )

    assert answer.code == 0
    assert (answer.json["kind"], answer.json["v"]) == ("settings", 1)
    (only,) = answer.json["settings"]
    assert (only["path"], only["value"], only["default"], only["from"], only["source"]) == (
        "round.epoch",
        4,
        1,
        "env",
        "REBALANCER_ROUND__EPOCH",
    )


@pytest.mark.heavy
@pytest.mark.parametrize("columns", ["80", "120"])
def test_config_show_fits_the_terminal(columns: str) -> None:
    answer = rebalancer("config", "show", env={"COLUMNS": columns})

    assert "interval_ms" in answer.out
    assert "loadBalancerSheddingGracePeriodMinutes" in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= int(columns)


def test_config_check_of_a_good_and_a_bad_file(tmp_path: Path) -> None:
    good = rebalancer(
        "config",
        "check",
        written(tmp_path, "[round]\nepoch = 2"),
        env={"REBALANCER_ROUND__EPOCH": "wrong"},
    )
    assert (good.code, good.err) == (0, "")
    assert "valid, sets 1 of" in good.out

    bad = rebalancer("config", "check", written(tmp_path, "[round]\nepoch = 0\nx = 1"))
    assert (bad.code, bad.out) == (2, "")
    assert [line.partition(": ")[2].partition(":")[0] for line in bad.err.splitlines()] == [
        "round.x",
        "round.epoch",
    ]


def test_the_printed_schema_is_json() -> None:
    assert (
        json.loads(rebalancer("config", "schema").out)["$schema"]
        == "https://json-schema.org/draft/2020-12/schema"
    )


def test_the_job_shares_the_connections_and_each_of_their_tables_is_read() -> None:
    flags = (
        "topics.rounds=file:///r",
        "wire.max_record_bytes=2000000",
        "files.retention_hours=48",
        "kafka.outage_ms=7000",
        "pulsar.cluster=c",
        "source.format=raw",
    )
    made = load(flags=(*flags, "signing.key_file=/key"))
    shared = [field.name for field in dataclasses.fields(Connections)]
    assert made.job.connections is made.connections
    assert all(getattr(made.connections, name) != getattr(Connections(), name) for name in shared)
