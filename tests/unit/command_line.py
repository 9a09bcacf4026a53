"""Runs `rebalancer …` inside the test, and keeps what it printed apart."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from pulsar_rebalancer.cli.main import app


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """Both outputs on one line, whatever was wrapped."""
        return re.sub(r"\s+", " ", self.out + self.err)


def rebalancer(
    *words: object, env: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> Answer:
    """The command line with these words; its environment has no settings but `env`."""
    ours: dict[str, str | None] = {
        name: None for name in os.environ if name.startswith("REBALANCER_")
    }
    result = CliRunner().invoke(
        app,
        [str(word) for word in words],
        env={**ours, "COLUMNS": "120", **(env or {})},
        input=stdin,
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)
