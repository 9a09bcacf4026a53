"""The dashboards of docker/grafana, and the expressions of their panels."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.monitoring.promtool import ROOT

FOLDER = ROOT / "docker/grafana/dashboards"
BOARDS: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text("utf-8")) for file in sorted(FOLDER.glob("*.json"))
}


@dataclass(frozen=True)
class Expression:
    board: str
    panel: str
    text: str

    def with_values(self, rate_interval: str) -> str:
        """What Grafana asks Prometheus, with all clusters selected."""
        text = self.text.replace("$__rate_interval", rate_interval).replace("$cluster", ".*")
        assert "$" not in text, self
        return text


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All panels that show something."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def expressions() -> Iterator[Expression]:
    """Those of all panels and annotations."""
    for name, board in BOARDS.items():
        for panel in panels(board):
            for target in panel["targets"]:
                yield Expression(name, panel["title"], target["expr"])


def metrics_in(expression: str) -> set[str]:
    """Names of metrics of this project and of Pulsar in an expression."""
    return set(re.findall(r"\bpulsar_\w+", expression))
