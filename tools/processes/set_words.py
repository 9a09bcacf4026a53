"""Settings as words of a command line."""

from collections.abc import Mapping


def set_words(settings: Mapping[str, object]) -> list[str]:
    """`--set PATH=VALUE` of each."""
    return [word for path, value in settings.items() for word in ("--set", f"{path}={value}")]
