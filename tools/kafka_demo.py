"""Runs `rebalancer demo` on a Kafka broker that lives as long as it: python -m tools.kafka_demo
[options of the demo].
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.servers.kafka_broker import kafka_broker


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="rebalancer-kafka-") as folder:
        print("Starting a Kafka broker …", file=sys.stderr)
        with kafka_broker(Path(folder)) as broker:
            command = [
                sys.executable,
                "-m",
                "pulsar_rebalancer.cli.main",
                "demo",
                "--kafka",
                broker.address(),
                *sys.argv[1:],
            ]
            code = subprocess.run(command, check=False).returncode
    print(
        "The broker is stopped, its topics are gone; with a broker of your own: rebalancer "
        "demo --kafka HOST:PORT",
        file=sys.stderr,
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
