"""What a program needs and this machine does not have."""

from __future__ import annotations


class NotHere(Exception):
    """Says what to install; a test that needs it is skipped with this reason."""
