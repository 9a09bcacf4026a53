"""Python code in a process of its own."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PROJECT = Path(__file__).parents[1]


def python(code: str, *words: str, environment: Mapping[str, str] | None = None) -> str:
    """What it prints. Raises CalledProcessError when it fails."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.check_output(command, cwd=_PROJECT, env=environment, text=True, timeout=300)
