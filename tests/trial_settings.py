"""`examples/pulsar.toml` as its last comment says to change it for a trial cluster."""

import re


def for_a_trial(text: str) -> str:
    """The example with UniformLoadShedder: its name, and its settings without the # in front."""
    assert 'strategy = "steady"' in text
    named = text.replace('strategy = "steady"', 'strategy = "uniform"')
    return re.sub(r"^#(?=[\[a-z])", "", named, flags=re.MULTILINE)
