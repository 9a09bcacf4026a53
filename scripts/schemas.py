"""Writes the JSON Schemas of the six topics from the contracts: python -m scripts.schemas
docs/schemas.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from sinks.wire.contracts.execution import (
    ApprovalOutcomeRecord,
    ApprovalRecord,
    CommandRecord,
    OutcomeRecord,
)
from sinks.wire.contracts.job_output import RejectedRecord, RoundRecord
from sinks.wire.contracts.telemetry import TelemetryMessage

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_CONTRACTS: dict[str, tuple[Any, str]] = {
    "telemetry": (
        TelemetryMessage,
        "Reports of brokers, collectors and executors; key = cluster. Fields that are not "
        "named here are ignored.",
    ),
    "commands": (
        CommandRecord,
        "The control topic; key = cluster. A command may be published more than once, each "
        "time with the same id.",
    ),
    "approvals": (
        ApprovalRecord,
        "What people decided about plans, and who pauses an executor; key = cluster.",
    ),
    "outcomes": (
        (OutcomeRecord, ApprovalOutcomeRecord),
        "The outcome of each command, and the answer to each approval; key = cluster.",
    ),
    "rounds": (RoundRecord, "One record per round of a cluster; key = cluster."),
    "rejected": (
        RejectedRecord,
        "Every telemetry record that could not be used, with its position and original bytes.",
    ),
}


def schemas() -> dict[str, str]:
    """The text of each schema by file name; the same at every run."""
    return {
        f"{topic}.schema.json": _text(topic, contract, said)
        for topic, (contract, said) in _CONTRACTS.items()
    }


def write_schemas(folder: Path) -> list[Path]:
    """Writes all schemas and returns their files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")
        written.append(folder / name)
    return written


def _text(topic: str, contract: Any, said: str) -> str:
    made = _with_whole_sentences(_schema(contract))
    head = {"$schema": _DIALECT, "title": topic.upper(), "description": said}
    return json.dumps(head | made, indent=2, ensure_ascii=False) + "\n"


def _schema(contract: Any) -> dict[str, Any]:
    """The schema of one contract, or of a topic that has records of several."""
    if not isinstance(contract, tuple):
        return msgspec.json.schema(contract)
    kinds, parts = msgspec.json.schema_components(contract, ref_template="#/$defs/{name}")
    return {"anyOf": list(kinds), "$defs": parts}


def _with_whole_sentences(node: Any) -> Any:
    """The schema with descriptions on one line; docstrings break theirs."""
    if isinstance(node, list):
        return [_with_whole_sentences(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: " ".join(value.split())
        if key == "description" and isinstance(value, str)
        else _with_whole_sentences(value)
        for key, value in node.items()
    }


def main(arguments: list[str]) -> int:
    """Writes the schemas into the folder that the command line names."""
    if len(arguments) != 1:
        print("usage: python -m scripts.schemas FOLDER", file=sys.stderr)
        return 2
    for path in write_schemas(Path(arguments[0])):
        print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
