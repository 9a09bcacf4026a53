"""Debian's Prometheus and its `promtool`, where `scripts/prometheus.sh` finds them, and tests of rules
in promtool's format.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "docker/prometheus/prometheus.yml"
RULES = ROOT / "docker/prometheus/rules.yml"
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'


def binaries() -> Path:
    """The folder with `prometheus` and `promtool`; without one the test is skipped."""
    found = subprocess.run(
        [ROOT / "scripts/prometheus.sh", "find", ROOT / ".venv"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(found.stderr.strip())
    return Path(found.stdout.strip())


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs it to its end."""
    command = [binaries() / "promtool", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rule_test(
    input_series: list[dict[str, str]], fired: Mapping[str, Iterable[str]], interval_s: int
) -> str:
    """A test file: the names of the alerts that fire at each time (`20m`), and no others."""
    expected = [
        {
            "expr": FIRING,
            "eval_time": time,
            "exp_samples": [
                {"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)
            ],
        }
        for time, alerts in fired.items()
    ]
    one: dict[str, Any] = {
        "interval": f"{interval_s}s",
        "input_series": input_series,
        "promql_expr_test": expected,
    }
    return yaml.safe_dump(
        {"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": [one]},
        sort_keys=False,
        width=10**9,
    )
