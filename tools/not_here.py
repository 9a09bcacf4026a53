"""What a program needs and this machine does not have."""


class NotHere(Exception):
    """Says what to install; a test that needs it is skipped with this reason."""
