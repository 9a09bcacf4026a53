"""Debian's Prometheus with the shipped configuration, on other targets, at a shorter interval."""

import json
import math
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import yaml

from tools.monitoring.promtool import CONFIG, RULES, binaries
from tools.waiting import eventually


@dataclass(frozen=True)
class Prometheus:
    """A running server. All methods raise OSError if it does not answer."""

    url: str

    def get(self, path: str) -> Any:
        """The field `data` of an answer of the HTTP API."""
        with urlopen(f"{self.url}/api/v1/{path}", timeout=60) as answer:
            return json.load(answer)["data"]

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        try:
            with urlopen(f"{self.url}/-/ready", timeout=60) as answer:
                return bool(answer.status == 200)
        except URLError:
            return False

    def values(self, expression: str) -> list[float]:
        """The present value of each series, without NaN."""
        found = self.get(f"query?query={quote(expression)}")["result"]
        values = [float(one["value"][1]) for one in found]
        return [value for value in values if not math.isnan(value)]

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with their health."""
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]


@contextmanager
def prometheus(
    folder: Path, targets: Mapping[str, Sequence[str]], interval: str
) -> Iterator[Prometheus]:
    """`targets`: host:port by `job_name` of the shipped configuration."""
    server = binaries() / "prometheus"
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    config["rule_files"] = [str(RULES)]
    assert {one["job_name"] for one in config["scrape_configs"]} == targets.keys()
    for one in config["scrape_configs"]:
        one["static_configs"] = [{"targets": list(targets[one["job_name"]])}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    address = f"127.0.0.1:{_free_port()}"
    with (folder / "prometheus.log").open("wb") as log:
        running = subprocess.Popen(
            [
                server,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        one = Prometheus(f"http://{address}")
        eventually(one.is_ready, otherwise=lambda: (folder / "prometheus.log").read_text("utf-8"))
        yield one
    finally:
        running.terminate()
        running.wait(60)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
