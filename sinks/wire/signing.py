"""Signatures of commands, rounds, approvals and intents: HMAC-SHA256 over the record's bytes,
appended as the record's last field.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from sinks.secret_file import Secret, read_secret
from strategies.errors import SettingsError
from strategies.settings import Setting

#: A shorter key can be guessed.
SHORTEST_KEY = 16
_SIGNED = re.compile(rb'(?P<body>\{.*),"sig":"(?P<sig>[0-9a-f]{64})"\}', re.DOTALL)

Verdict = Literal["signed", "unsigned", "wrong"]


@dataclass(frozen=True, slots=True)
class SigningSettings:
    """The keys that sign commands and rounds, approvals, and intents."""

    key_file: Annotated[
        str,
        Setting(
            "File with the key that signs commands and rounds; executors then refuse unsigned "
            "ones; empty = unsigned",
            "",
        ),
    ] = ""
    approvals_key_file: Annotated[
        str,
        Setting(
            "File with the key that signs approvals, pauses and resumes; executors and people "
            "have it, jobs do not; empty = none",
            "",
        ),
    ] = ""
    intents_key_file: Annotated[
        str,
        Setting(
            "File with the key that signs drains and rolls; people and the job have it, and the "
            "job then refuses other intents; empty = unsigned",
            "",
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Signs records and verifies signatures."""

    secret: Secret

    def sign(self, record: bytes) -> bytes:
        """The record's canonical bytes (an object without `sig`) with the signature as last
        field.
        """
        return b'%b,"sig":"%b"}' % (record[:-1], self._mac(record))

    def check(self, record: bytes) -> Verdict:
        """Whether the bytes, as received, are signed with this key. `sig` must be the last field,
        as `sign` writes it.
        """
        match = _SIGNED.fullmatch(record.strip())
        if match is None:
            return "wrong" if b'"sig"' in record else "unsigned"
        return (
            "signed"
            if hmac.compare_digest(self._mac(match["body"] + b"}"), match["sig"])
            else "wrong"
        )

    def _mac(self, record: bytes) -> bytes:
        return hmac.new(self.secret.reveal(), record, hashlib.sha256).hexdigest().encode()


def signing_key(settings: SigningSettings) -> SigningKey | None:
    """The key that the settings name, None if they name none. Raises SettingsError."""
    return _key(settings.key_file, "signing.key_file")


def approvals_key(settings: SigningSettings) -> SigningKey | None:
    """The key of approvals, None if the settings name none. Raises SettingsError, also for the key
    that signs commands: a job could approve its own plans with it.
    """
    key = _key(settings.approvals_key_file, "signing.approvals_key_file")
    if key is not None and settings.key_file and key == signing_key(settings):
        raise SettingsError(
            [
                "signing.approvals_key_file: holds the same key as signing.key_file, so a job "
                "could approve its own plans; write another one with: openssl rand -hex 32"
            ]
        )
    return key


def intents_key(settings: SigningSettings) -> SigningKey | None:
    """The key of intents, None if the settings name none. Raises SettingsError, also for a key that
    signs something else: who may drain a broker need not be able to sign commands or approvals.
    """
    key = _key(settings.intents_key_file, "signing.intents_key_file")
    for file, name in (
        (settings.key_file, "key_file"),
        (settings.approvals_key_file, "approvals_key_file"),
    ):
        if key is not None and file and key == _if_readable(file, f"signing.{name}"):
            raise SettingsError(
                [
                    f"signing.intents_key_file: holds the same key as signing.{name}, so people "
                    "who drain brokers could sign more than that; write another one with: "
                    "openssl rand -hex 32"
                ]
            )
    return key


def _if_readable(file: str, setting: str) -> SigningKey | None:
    """Another key of the settings, where this process can read it: not every process has each."""
    try:
        return _key(file, setting)
    except SettingsError:
        return None


def _key(file: str, setting: str) -> SigningKey | None:
    if not file:
        return None
    secret = read_secret(file, setting)
    if len(secret.reveal()) < SHORTEST_KEY:
        raise SettingsError(
            [
                f"{setting}: {file} has fewer than {SHORTEST_KEY} bytes; "
                "write one with: openssl rand -hex 32"
            ]
        )
    return SigningKey(secret)
