"""Whatever bytes are on a topic, the commands that read it for people give their answer and a count
of what they skipped.
"""

import json
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import file_topic_uri
from sinks.wire.operator_records import encode_approval, encode_approval_outcome
from sinks.wire.record_encoding import encode_command, encode_outcome, encode_round
from strategies.cluster.model import Round, Skip
from strategies.cluster.round_figures import Spread
from tests.control_topic import command
from tests.telemetry_lines import bundle, load_report, sweep
from tests.unit.command_line import rebalancer
from tests.unit.test_wire_encoding import ANSWER, APPROVAL, OUTCOME

BROKER, BUNDLE = "a:1", bundle(1)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, 2**53, 2**53 + 1, 8_640_000_000_000_000, -1])
    | st.floats()
    | st.text(max_size=8)
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@cache
def legal() -> tuple[dict[str, Any], ...]:
    even = Spread(0.0, 0.0, 0.0)
    done = Round(
        cluster="c", round=1, epoch=1, ts=1, closed_by="sweep", strategy="avg", brokers=(BROKER,),
        stale={"b:1": "silent"}, usage={BROKER: 0.5}, usage_after={BROKER: 0.4}, spread=even,
        spread_after=even, throughput_spread=even, commands=("x",), digest="d", version="1",
        skips=(Skip("bundle", (BUNDLE,), "code", "text", BROKER, {"f": 1.5}),),
    )  # fmt: skip
    records = [
        encode_round(done),
        encode_command(command(BUNDLE, BROKER, "b:1", id="x-command")),
        encode_approval(replace(APPROVAL, plan="1.1-0123456789ab")),
        encode_approval_outcome(replace(ANSWER, plan="1.1-0123456789ab")),
        encode_outcome(OUTCOME),
        load_report(BROKER, 1, {BUNDLE: 1.0}),
        sweep(2, BROKER),
    ]
    return tuple(json.loads(record) for record in records)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A legal record with one or two values replaced by any others, added, or taken away."""
    record = json.loads(json.dumps(draw(st.sampled_from(legal()))))
    for _ in range(draw(st.integers(1, 2))):
        holder: Any = record
        while nested := [key for key in holder if isinstance(holder[key], dict) and holder[key]]:
            if draw(st.booleans()):
                break
            holder = holder[draw(st.sampled_from(nested))]
        key = draw(st.sampled_from([*holder, "new"]))
        if draw(st.booleans()):
            holder[key] = draw(trees)
        else:
            holder.pop(key, None)
    return json.dumps(record).encode()


values = (
    st.binary(max_size=40)
    | trees.map(lambda tree: json.dumps(tree).encode())
    | damaged()
    | st.sampled_from(legal()).map(lambda r: json.dumps(r).encode())
)


#: Command lines; all of them read the same topic as each kind of records.
READING = (
    ("explain", "1"),
    ("explain", "x-command"),
    ("explain", BROKER),
    ("explain", BUNDLE, "--json"),
    ("plans", "list"),
    ("plans", "list", "--json"),
    ("status",),
    ("status", "--json"),
    ("shadow",),
    ("shadow", "--json"),
    ("replay", "--json", "--from-topic"),
)


@pytest.mark.heavy
@given(
    st.sampled_from(READING),
    st.lists(values.map(lambda value: value.replace(b"\n", b" ")), min_size=1, max_size=12),
)
def test_any_bytes_on_any_topic_never_end_a_reading_command(
    reading: tuple[str, ...], records: list[bytes]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        uri = file_topic_uri(Path(folder) / "topic")
        with FileTopicWriter(Path(folder) / "topic") as topic:
            topic.append([*(json.dumps(record).encode() for record in legal()), *records])
        topics = [
            word
            for kind in ("telemetry", "rounds", "commands", "outcomes", "approvals")
            for word in ("--set", f"topics.{kind}={uri}")
        ]
        asks = ["--set", "executor.approval=required"]
        where = [uri] if reading[0] == "replay" else []
        answer = rebalancer(*reading, *where, *topics, *asks)
        assert (answer.code, "this is a bug" in answer.err) == (0, False), answer.err
