"""Debian's Prometheus and `promtool`, where `scripts/prometheus.sh` finds them, and tests of rules
in promtool's format.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.not_here import NotHere

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "docker/prometheus/prometheus.yml"
RULES = ROOT / "docker/prometheus/rules.yml"


@dataclass(frozen=True)
class Expected:
    """Alerts that fire at a minute, and no others except `or_not`, which may."""

    minute: int
    firing: tuple[str, ...] = ()
    or_not: str = ""

    def test(self) -> dict[str, Any]:
        """As an entry of `promql_expr_test`."""
        alerts = f'ALERTS{{alertstate="firing",alertname!="{self.or_not}"}}'
        return {
            "expr": f"group by (alertname) ({alerts})",
            "eval_time": f"{self.minute}m",
            "exp_samples": [
                {"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in self.firing
            ],
        }


@cache
def binaries() -> Path:
    """The folder with `prometheus` and `promtool`; raises NotHere without one."""
    found = subprocess.run(
        [ROOT / "scripts/prometheus.sh", "find", ROOT / ".venv"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise NotHere(found.stderr.strip())
    return Path(found.stdout.strip())


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs it to its end."""
    command = [str(binaries() / "promtool"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rule_test(
    input_series: Sequence[Mapping[str, str]], interval_s: int, **tests: Sequence[Mapping[str, Any]]
) -> str:
    """A test file for the shipped rules. `tests`: `promql_expr_test` or `alert_rule_test`."""
    one: dict[str, Any] = {"interval": f"{interval_s}s", "input_series": list(input_series)}
    for kind, entries in tests.items():
        one[kind] = list(entries)
    return yaml.safe_dump(
        {"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": [one]},
        sort_keys=False,
        width=10**9,
    )
