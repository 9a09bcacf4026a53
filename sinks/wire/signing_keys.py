"""Signatures of commands, rounds, approvals and intents: HMAC-SHA256 over the record's bytes,
appended as the record's last field.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from sinks.secret_file import Secret, read_secret
from strategies.errors import SettingsError, WireError
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
    previous_key_file: Annotated[
        str,
        Setting(
            "While signing.key_file changes: file with the key before, which is accepted too; "
            "empty = none",
            "",
        ),
    ] = ""
    previous_approvals_key_file: Annotated[
        str,
        Setting(
            "While signing.approvals_key_file changes: file with the key before, which is "
            "accepted too; empty = none",
            "",
        ),
    ] = ""
    previous_intents_key_file: Annotated[
        str,
        Setting(
            "While signing.intents_key_file changes: file with the key before, which is accepted "
            "too; empty = none",
            "",
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Signs records and verifies signatures. `previous`: a key that is accepted too and signs
    nothing: while keys change, records with both signatures are under way.
    """

    secret: Secret
    previous: Secret | None = None

    @property
    def keys(self) -> tuple[Secret, ...]:
        """The key that signs, and the previous one if there is one."""
        return (self.secret,) if self.previous is None else (self.secret, self.previous)

    @property
    def current(self) -> "SigningKey":
        """Accepts only what it signs itself."""
        return SigningKey(self.secret)

    def shares(self, other: "SigningKey") -> bool:
        """True if a record that one of them accepts could be signed with a key of the other."""
        return any(one in other.keys for one in self.keys)

    def sign(self, record: bytes) -> bytes:
        """The record's canonical bytes (an object without `sig`) with the signature as last
        field.
        """
        return b'%b,"sig":"%b"}' % (record[:-1], _mac(self.secret, record))

    def check(self, record: bytes) -> Verdict:
        """Says if the bytes, as received, are signed with this key or the previous one. `sig` must
        be the last field, as `sign` writes it.
        """
        match = _SIGNED.fullmatch(record.strip())
        if match is None:
            return "wrong" if b'"sig"' in record else "unsigned"
        body = match["body"] + b"}"
        signed = [hmac.compare_digest(_mac(key, body), match["sig"]) for key in self.keys]
        return "signed" if any(signed) else "wrong"


def signing_key(settings: SigningSettings) -> SigningKey | None:
    """The key that the settings name, None if they name none. Raises SettingsError."""
    return _key(settings, "key_file")


def approvals_key(settings: SigningSettings) -> SigningKey | None:
    """The key of approvals, None if the settings name none. Raises SettingsError, also for the key
    that signs commands: a job could approve its own plans with it.
    """
    key = _key(settings, "approvals_key_file")
    commands = signing_key(settings) if key is not None else None
    if key is not None and commands is not None and key.shares(commands):
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
    key = _key(settings, "intents_key_file")
    for name in ("key_file", "approvals_key_file"):
        other = None if key is None else _if_readable(settings, name)
        if key is not None and other is not None and key.shares(other):
            raise SettingsError(
                [
                    f"signing.intents_key_file: holds the same key as signing.{name}, so people "
                    "who drain brokers could sign more than that; write another one with: "
                    "openssl rand -hex 32"
                ]
            )
    return key


def _if_readable(settings: SigningSettings, name: str) -> SigningKey | None:
    """Another key of the settings, where this process can read it: not every process has each."""
    try:
        return _key(settings, name)
    except SettingsError:
        return None


def _key(settings: SigningSettings, name: str) -> SigningKey | None:
    """The key of a setting, with the previous one."""
    file, previous = getattr(settings, name), getattr(settings, f"previous_{name}")
    keys = read_keys(file, previous, "signing", name)
    return SigningKey(*keys) if keys else None


def check_intent_signature(value: bytes, key: SigningKey) -> None:
    """Raises WireError unless the record's bytes are signed with this key."""
    verdict = key.check(value)
    if verdict == "unsigned":
        raise WireError(
            "intent-unsigned",
            "The intent has no signature, and this job has signing.intents_key_file; write intents "
            "with a command that has the same key.",
        )
    if verdict == "wrong":
        raise WireError(
            "intent-wrong-signature",
            "The intent's signature is not of the key in signing.intents_key_file; the command "
            "that writes intents needs the same key as the job.",
        )


def read_keys(file: str, previous: str, table: str, name: str) -> tuple[Secret, ...]:
    """The key in `file`, and the one before it in `previous`; none without a file. `table`, `name`:
    of the setting that names the file. Raises SettingsError.
    """
    if previous and not file:
        raise SettingsError(
            [
                f"{table}.previous_{name}: names a key, but {table}.{name} names none; name the "
                f"key that signs as {table}.{name}"
            ]
        )
    named = {f"{table}.{name}": file, f"{table}.previous_{name}": previous}
    return tuple(_secret(place, setting) for setting, place in named.items() if place)


def _secret(file: str, setting: str) -> Secret:
    secret = read_secret(file, setting)
    if len(secret.reveal()) < SHORTEST_KEY:
        raise SettingsError(
            [
                f"{setting}: {file} has fewer than {SHORTEST_KEY} bytes; "
                "write one with: openssl rand -hex 32"
            ]
        )
    return secret


def _mac(secret: Secret, record: bytes) -> bytes:
    return hmac.new(secret.reveal(), record, hashlib.sha256).hexdigest().encode()
