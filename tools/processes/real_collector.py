"""The real collector in a folder of its own: `rebalancer collect` as a process that can be killed
and begun again.
"""

from pathlib import Path

from tests.control_topic import Control
from tools.processes.process import WITH_TRACES, Process
from tools.processes.real_executor import TOKEN, HasAdminUrls, login


def real_collector(
    folder: Path, pulsar: HasAdminUrls, control: Control, interval_ms: int, token: str = TOKEN
) -> Process:
    """A pass every `interval_ms`, with a file that contains this token."""
    folder.mkdir(parents=True, exist_ok=True)
    given = login(folder, pulsar, token) | {
        "collector.pass_interval_ms": interval_ms,
        "topics.telemetry": control.uri("telemetry"),
    }
    return Process(folder / "log", "collect", settings=given, environment=WITH_TRACES)
