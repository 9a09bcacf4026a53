"""Checks the key that signs drains and rolls."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from rebalancer.cli.doctor.finding import Finding, ok
from sinks.wire.signing import SigningSettings, intents_key
from strategies.errors import SettingsError

_CHECK = "intents key"
_OTHERS = stat.S_IWGRP | stat.S_IRWXO


def check_intents(signing: SigningSettings) -> Iterator[Finding]:
    """The most severe finding; none without a key."""
    if not signing.intents_key_file:
        return
    try:
        intents_key(signing)
    except SettingsError as error:
        yield Finding(_CHECK, "fail", error.complaints[0], "correct that setting")
        return
    path = Path(signing.intents_key_file)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        yield Finding(
            _CHECK,
            "warn",
            f"{path}: mode {mode:04o} lets others read or change the key, so they can drain "
            "brokers",
            f"chmod 600 {path}",
        )
        return
    yield ok(_CHECK, f"{path} is usable: the job refuses drains and rolls without it")
