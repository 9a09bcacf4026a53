"""Digests of published commands, which approvals are bound to."""

from __future__ import annotations

import hashlib


def command_digest(record: bytes) -> str:
    """SHA-256 (hex) of a command's record, as its bytes are on the topic, signature included."""
    return hashlib.sha256(record).hexdigest()
