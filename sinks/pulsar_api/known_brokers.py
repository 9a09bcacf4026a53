"""Addresses for calls that any broker answers: the configured ones, then the brokers in the
cluster's list, stored for the next start.

The token is sent to all of them, so the list contains only brokers that the cluster itself listed,
with the scheme of `pulsar.admin_urls`. A file is used only for the same cluster and addresses, for
a week, and if no other user can write it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sinks.pulsar_api.settings import AdminUrl, PulsarSettings, admin_urls, base_of
from sinks.wall_clock import wall_clock_ms
from sinks.wire.names import is_broker

_DAY_MS = 86_400_000
#: After a week the address of a broker may belong to another service.
_LONGEST_MS = 7 * _DAY_MS
_REFRESH_MS = 3_600_000
_LARGEST = 4 * 2**20
#: Number of listed brokers that one call asks at most; the next call asks others.
MOST_FALLBACKS = 8

Say = Callable[[str], None]


class KnownBrokers:
    """Addresses of a cluster's brokers. Thread-safe."""

    def __init__(
        self,
        settings: PulsarSettings,
        folders: Sequence[Path] = (),
        log: Say = lambda _: None,
        *,
        write: bool = True,
        clock_ms: Callable[[], int] = wall_clock_ms,
        fsync: Callable[[int], None] = os.fsync,
    ) -> None:
        """Reads the files in `folders`, without requests. Raises SettingsError.

        `write`: stores the cluster's list in the first folder. `log`: gets the reason if a file is
        not used. `fsync`: flushes the file of a file descriptor.
        """
        self._settings = settings
        self._urls = admin_urls(settings)
        self._clock_ms, self._log, self._fsync = clock_ms, log, fsync
        files = [folder / f"brokers-{_key(settings, self._urls)}.json" for folder in folders]
        self._file = files[0] if files and write else None
        self._changing = threading.Lock()
        self._written: tuple[tuple[str, ...], int] | None = None
        self._complained = False
        self._proved = False
        #: The first broker that answered in place of the configured ones, and why it was asked;
        #: empty if none had to.
        self.used, self.why = "", ""
        self._order = self._urls
        self._set([name for file in files for name in self._read(file)])

    def bases(self) -> tuple[AdminUrl, ...]:
        """Addresses in the order to ask them; those that failed last come last."""
        left_out = frozenset([*filter(self.is_fallback, self._order)][MOST_FALLBACKS:])
        return tuple(base for base in self._order if base not in left_out)

    def is_fallback(self, base: AdminUrl) -> bool:
        """Whether the address comes from the cluster's list and not from the settings."""
        return base not in self._urls

    def is_doubtful(self, base: AdminUrl) -> bool:
        """Whether the address is known only from a file: its host may have become another service
        since.
        """
        return not self._proved and self.is_fallback(base)

    def helped(self, base: AdminUrl, failed: Exception | None) -> None:
        """Records that a broker answered after another failed; reports the first time that an
        address of the cluster's list had to help.
        """
        if self.used or failed is None or not self.is_fallback(base):
            return
        self.used, self.why = str(base), str(failed)
        self._log(
            f"{failed} Until it does, {base} and other brokers of the cluster's list are asked."
        )

    def failed(self, base: AdminUrl) -> None:
        """Moves an address to the end of the order."""
        with self._changing:
            if base in self._order:
                self._order = (*(one for one in self._order if one != base), base)

    def learn(self, brokers: Iterable[str]) -> None:
        """Stores the cluster's list, on the disk too if it changed. Ignores an empty list: the
        broker that sent it is missing in it.
        """
        names = tuple(sorted(brokers))
        if not names:
            return
        with self._changing:
            self._proved = True
            self._set(names)
            if self._file is not None and self._is_news(names):
                self._write(self._file, names)

    def _set(self, names: Sequence[str]) -> None:
        listed = dict.fromkeys(base_of(name, self._urls, self._settings) for name in names)
        kept = [base for base in self._order if base in listed or base in self._urls]
        self._order = tuple(dict.fromkeys([*kept, *listed]))

    def _is_news(self, names: tuple[str, ...]) -> bool:
        return (
            self._written is None
            or self._written[0] != names
            or self._clock_ms() - self._written[1] > _REFRESH_MS
        )

    def _write(self, file: Path, names: tuple[str, ...]) -> None:
        tree = {
            "v": 1,
            **_whose(self._settings, self._urls),
            "ts": self._clock_ms(),
            "brokers": names,
        }
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _replace(file, json.dumps(tree).encode(), self._fsync)
        except OSError as error:
            self._complain(
                f"{file} cannot be written ({error.strerror}): the next start uses "
                "pulsar.admin_urls only; let this user write there"
            )
        self._written = names, self._clock_ms()

    def _read(self, file: Path) -> tuple[str, ...]:
        """The broker names in a file; empty if it cannot be used."""
        try:
            return self._names(_text(file))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as error:
            self._complain(
                f"{file} is not used: {error}; `collect` and `execute` replace it as soon as "
                "a broker answers"
            )
            return ()

    def _names(self, text: bytes) -> tuple[str, ...]:
        tree = json.loads(text)
        if not isinstance(tree, dict) or tree.get("v") != 1 or not isinstance(tree.get("ts"), int):
            raise ValueError("it is not a list of brokers")
        if any(
            tree.get(name) != value for name, value in _whose(self._settings, self._urls).items()
        ):
            raise ValueError("it belongs to another cluster or other pulsar.admin_urls")
        if not -_DAY_MS <= self._clock_ms() - tree["ts"] <= _LONGEST_MS:
            raise ValueError("it is older than a week, or comes from the future")
        names = tree.get("brokers")
        if not isinstance(names, list) or not all(
            isinstance(name, str) and is_broker(name) for name in names
        ):
            raise ValueError("it contains an invalid broker id")
        return tuple(names)

    def _complain(self, sentence: str) -> None:
        """Reports once why a file is not used: it matters only at the next start."""
        if not self._complained:
            self._log(sentence)
        self._complained = True


def _whose(settings: PulsarSettings, urls: Sequence[AdminUrl]) -> dict[str, object]:
    return {"cluster": settings.cluster, "admin_urls": sorted(map(str, urls))}


def _key(settings: PulsarSettings, urls: Sequence[AdminUrl]) -> str:
    return hashlib.blake2b(json.dumps(_whose(settings, urls)).encode(), digest_size=8).hexdigest()


def _text(file: Path) -> bytes:
    """The file's content. Raises OSError; ValueError if other users may write it or it is not a
    file of ours.
    """
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as content:
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST:
            raise ValueError("it is not a list of brokers")
        if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError("other users may write it, and the token is sent to the brokers in it")
        return content.read()


def _replace(file: Path, text: bytes, fsync: Callable[[int], None]) -> None:
    """Replaces the file atomically: after a crash it has the old content or the new one."""
    opened, part = tempfile.mkstemp(dir=file.parent, prefix=".brokers-")
    try:
        with os.fdopen(opened, "wb") as content:
            content.write(text)
            content.flush()
            fsync(opened)
        Path(part).replace(file)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
