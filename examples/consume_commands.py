"""Acts on each command once: python examples/consume_commands.py FOLDER, or standard input."""

import json
import sys
from pathlib import Path

segments = sorted(Path(sys.argv[1]).glob("segment-*.jsonl")) if len(sys.argv) > 1 else []
files = [segment.open("rb") for segment in segments] if segments else [sys.stdin.buffer]
done = set()
# A line without newline is still being written.
for line in (line for file in files for line in file if line.endswith(b"\n")):
    try:
        command = json.loads(line)
    except ValueError:
        continue  # a torn line: its writer died
    # A repeated id is the same command.
    if command.get("v") == 1 and "action" in command and command["id"] not in done:
        done.add(command["id"])
        # Act on the command here, unless command["expires_at_ms"] has passed.
        print(command["action"], command["bundle"], command["source"], end=" -> ")
        print(command["destination"] or "anywhere:", command["reason"]["text"])
