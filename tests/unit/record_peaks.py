"""Prints what hostile records cost: `python -m tests.unit.record_peaks BYTES FAULT…`.

Each is read in a fork, so that no memory of the one before is used again.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from sinks.wire.record_decoding import decode, read_command
from strategies.errors import WireError
from tests.hostile_records import (
    COSTLY,
    costly_command,
    costly_policies,
    costly_sweep,
    costly_table,
    hostile,
)

Case = tuple[str, Callable[[], bytes], Callable[[bytes], object]]


def cases(size: int, faults: list[str]) -> Iterator[Case]:
    """Name, maker and reader of each record."""
    telemetry = partial(decode, origin=b"")
    for kind in COSTLY:
        for fault in faults:
            yield f"{kind}/{fault}", partial(hostile, kind, fault, size), telemetry
        yield f"{kind}/policies", partial(costly_policies, kind, size), telemetry
        yield f"{kind}/table", partial(costly_table, kind, size), telemetry
        yield f"{kind}/sweep", partial(costly_sweep, kind, size), telemetry
        yield f"{kind}/command", partial(costly_command, kind, size), read_command


def in_child(task: Callable[[], None]) -> None:
    """Runs in a fork; AssertionError when it does not end well."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            task()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def resident(name: str) -> int:
    """Bytes, by a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def write_once(make: Callable[[], bytes], file: Path) -> None:
    file.write_bytes(make())


def read_once(name: str, file: Path, reader: Callable[[bytes], object]) -> None:
    record = file.read_bytes()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = resident("VmRSS:")
    with suppress(WireError):
        reader(record)
    print(name, len(record), resident("VmHWM:") - before, flush=True)


def main(size: int, faults: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "record"
        for name, make, reader in cases(size, faults):
            in_child(partial(write_once, make, file))
            in_child(partial(read_once, name, file, reader))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
