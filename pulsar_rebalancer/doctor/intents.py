"""Checks the key that signs drains and rolls."""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_rebalancer.cli.finding import Finding, ok
from pulsar_rebalancer.doctor.key_files import and_previous, open_to_others
from sinks.wire.signing import SigningSettings, intents_key
from strategies.errors import SettingsError

_CHECK = "intents key"


def check_intents(signing: SigningSettings) -> Iterator[Finding]:
    """The most severe finding; none without a key."""
    if not signing.intents_key_file:
        return
    try:
        intents_key(signing)
    except SettingsError as error:
        yield Finding(_CHECK, "fail", error.complaints[0], "correct that setting")
        return
    path, previous = signing.intents_key_file, signing.previous_intents_key_file
    if found := open_to_others((path, previous)):
        file, mode = found
        yield Finding(
            _CHECK,
            "warn",
            f"{file}: mode {mode:04o} lets others read or change the key, so they can drain "
            "brokers",
            f"chmod 600 {file}",
        )
        return
    yield ok(
        _CHECK,
        f"{path} is usable: the job refuses drains and rolls without it"
        + and_previous(previous, "signing.previous_intents_key_file"),
    )
