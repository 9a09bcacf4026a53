"""Processes below one process: what each is, its memory and its CPU time. Needs Linux."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Roles by a word of the command line; the first that is found counts.
_ROLES = (
    ("pyspark.daemon", "Python workers' daemon"),
    ("streaming.worker_daemon", "Python workers' daemon"),
    ("streaming.python_streaming_source_runner", "Python source"),
    ("foreach_batch", "Python foreachBatch"),
    ("org.apache.spark", "Java"),
)
DRIVER, WORKER = "driver (Python)", "Python worker"


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """One process now. Bytes: `pss` counts a shared page by its share, `uss` its own pages only,
    `rss` all. `anonymous`: the part of `pss` that belongs to no file. `cpu_s`: CPU time until now,
    that of children which ended included.
    """

    role: str
    pid: int
    pss: int
    uss: int
    rss: int
    anonymous: int
    threads: int
    cpu_s: float


def used_below(pid: int) -> list[ProcessUse]:
    """Use of a process and of all below it, in the order of their numbers; without those that end
    meanwhile.
    """
    parents = dict(_parents())
    ours = [one for one in sorted(parents) if one == pid or pid in _ancestors(one, parents)]
    daemons = {one for one in ours if _role(one) == _ROLES[0][1]}
    return [
        use for one in ours if (use := _use(one, _name(one, pid, parents, daemons))) is not None
    ]


def _name(one: int, top: int, parents: Mapping[int, int], daemons: set[int]) -> str:
    if one == top:
        return DRIVER
    return WORKER if parents[one] in daemons else _role(one)


def _role(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return "ended"
    return next((role for word, role in _ROLES if word in words), words.split("\0")[0] or "ended")


def _parents() -> Iterator[tuple[int, int]]:
    for file in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(file)
        if fields:
            yield int(file.parent.name), int(fields[1])


def _ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) > 1:
        yield pid


def _stat(file: Path) -> Sequence[str]:
    """Fields after the program's name; none if the process has ended."""
    try:
        return file.read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return ()


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time of these processes until now, that of children which ended included."""
    return sum(_cpu_s(_stat(Path(f"/proc/{pid}/stat"))) for pid in pids)


def _cpu_s(fields: Sequence[str]) -> float:
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def proportional_bytes(pid: int) -> int:
    """Resident memory, with each shared page divided by the number of its processes; 0 for a
    process that has ended.
    """
    return 1024 * _kib(pid).get("Pss", 0)


def _kib(pid: int) -> dict[str, int]:
    """Sums over all memory of a process by their names; none if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines if line.endswith(" kB")]
    return {word[0].rstrip(":"): int(word[1]) for word in words}


def _use(pid: int, role: str) -> ProcessUse | None:
    fields, kib = _stat(Path(f"/proc/{pid}/stat")), _kib(pid)
    if not fields or "Pss" not in kib:
        return None
    own = kib["Private_Clean"] + kib["Private_Dirty"]
    anonymous = kib.get("Pss_Anon", 0) + kib.get("Pss_Shmem", 0)
    pss, uss, rss, no_file = (1024 * size for size in (kib["Pss"], own, kib["Rss"], anonymous))
    return ProcessUse(role, pid, pss, uss, rss, no_file, int(fields[17]), _cpu_s(fields))
