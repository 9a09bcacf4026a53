"""Reads the control topic and acts on each command once: python examples/consume_commands.py
FOLDER, or lines on standard input.
"""

import json
import sys
from pathlib import Path

files = (
    [file.open("rb") for file in sorted(Path(sys.argv[1]).glob("segment-*.jsonl"))]
    if len(sys.argv) > 1
    else [sys.stdin.buffer]
)
done = set()
for line in (
    line for file in files for line in file if line.endswith(b"\n")
):  # a line without newline is still being written
    try:
        command = json.loads(line)
    except ValueError:
        continue  # a torn line: its writer died
    if (
        command.get("v") == 1 and "action" in command and command["id"] not in done
    ):  # a repeated id is the same command
        done.add(command["id"])
        # Act on the command here, unless command["expires_at_ms"] has passed.
        print(
            command["action"],
            command["bundle"],
            command["source"],
            "->",
            command["destination"] or "anywhere:",
            command["reason"]["text"],
        )
