"""Our command line with the settings to reach a Pulsar cluster."""

from dataclasses import asdict

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from tests.control_topic import TOPICS, Control
from tests.unit.command_line import Answer, rebalancer
from tools.processes.set_words import set_words

_DEFAULTS = PulsarSettings()


def words(settings: PulsarSettings) -> list[str]:
    given = {
        f"pulsar.{name}": value
        for name, value in asdict(settings).items()
        if value != getattr(_DEFAULTS, name)
    }
    return set_words(given)


def around(control: Control) -> list[str]:
    """Topics and the state folder of the executor for a command line."""
    topics = {f"topics.{topic}": control.uri(topic) for topic in TOPICS}
    return set_words({"executor.state": control.folder / "state", **topics})


def execute(settings: PulsarSettings, control: Control, *more: str) -> Answer:
    """`rebalancer execute --apply` until the control topic is worked off."""
    patient = ("--set", "executor.arrival_timeout_ms=60000")
    return rebalancer(
        "execute", "--apply", "--once", *patient, *words(settings), *around(control), *more
    )
