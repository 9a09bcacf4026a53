"""The load manager and the shedder that brokers run. They may differ from those in broker.conf.

A broker older than Pulsar 4.2.4 that cannot create its load manager runs SimpleLoadManagerImpl
instead (apache/pulsar pull request 26031). After a failed dynamic change of `loadManagerClassName`,
any broker keeps the old load manager or has none. The extensible load manager runs TransferShedder
in place of every class that is not made for it (UnloadScheduler).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsar_rebalancer.cli.finding import Finding, ok
from pulsar_rebalancer.doctor.brokers import Broker
from sinks.pulsar_api.settings import PulsarSettings
from strategies.shedding.registry import EXTENSIBLE, SHEDDERS

_CHECK = "load manager"
_SHEDDER = "loadBalancerLoadSheddingStrategy"
#: Shedders that the modular load manager runs; the extensible one cannot.
_MODULAR = frozenset(
    strategy.java_class for strategy in SHEDDERS.values() if strategy.load_manager == "modular"
)


def check_load_manager(listed: Sequence[Broker], settings: PulsarSettings) -> Finding:
    """Checks that all brokers run one load manager, and that it is the configured one and that of
    `pulsar.load_manager`.
    """
    fallen = [
        broker
        for broker in listed
        if broker.runs and broker.configured and broker.runs != broker.configured
    ]
    if fallen:
        return _fallen_back(fallen)
    names = sorted({broker.manager for broker in listed if broker.manager})
    text = " and ".join(names) or "unknown"
    if len(names) > 1:
        return Finding(
            _CHECK,
            "fail",
            f"{text}: {_where(listed, names)}",
            "finish the migration: brokers with different load managers do not exchange their load",
        )
    stated = settings.load_manager
    if names and stated != "auto" and not names[0].lower().startswith(stated):
        return Finding(
            _CHECK,
            "fail",
            f"{text}; pulsar.load_manager says {stated}",
            "set pulsar.load_manager to auto",
        )
    if names and not names[0].startswith(("Modular", "Extensible")):
        return Finding(
            _CHECK,
            "fail",
            text,
            "set loadManagerClassName to ModularLoadManagerImpl or ExtensibleLoadManagerImpl: "
            "this one's figures cannot be read",
        )
    return ok(_CHECK, text)


def check_shedder(listed: Sequence[Broker]) -> Iterator[Finding]:
    """Reports the built-in shedder that runs, or would run if shedding were on. Warns if it is on
    and another one is configured.
    """
    known = [broker for broker in listed if broker.class_of(_SHEDDER)]
    if not known:
        return
    runs = sorted({_shedder(broker) for broker in known})
    replaced = [broker for broker in known if _shedder(broker) != broker.class_of(_SHEDDER)]
    text = " and ".join(runs)
    if replaced:
        configured = " and ".join(sorted({broker.class_of(_SHEDDER) for broker in replaced}))
        text += (
            f": the extensible load manager runs it in place of {configured}, which is configured"
        )
    if any(map(_sheds, replaced)):
        yield Finding(
            "built-in shedder",
            "warn",
            text,
            f"set {_SHEDDER}={EXTENSIBLE.pulsar_class}, so that broker.conf names the shedder "
            "that runs",
        )
    elif len(runs) > 1:
        yield Finding(
            "built-in shedder",
            "warn",
            text,
            "configure the same shedder on all brokers: the leader's applies, and the leader may "
            "change",
        )
    else:
        yield ok(
            "built-in shedder", text if any(map(_sheds, known)) else f"{text}, and shedding is off"
        )


def effective_shedder(manager: str, configured: str) -> str:
    """The shedder that a load manager runs for a configured class; unchanged if the class is not
    one of Pulsar's.
    """
    return (
        EXTENSIBLE.java_class
        if manager.startswith("Extensible") and configured in _MODULAR
        else configured
    )


def _shedder(broker: Broker) -> str:
    return effective_shedder(broker.manager, broker.class_of(_SHEDDER))


def _fallen_back(fallen: Sequence[Broker]) -> Finding:
    first = fallen[0]
    more = f" and {len(fallen) - 1} more" if len(fallen) > 1 else ""
    text = (
        f"{first.name}{more} runs {first.runs}, although {first.configured} is configured: its "
        "creation, or the change to it, failed"
    )
    placement, shedding = (
        first.class_of("loadBalancerLoadPlacementStrategy"),
        first.class_of(_SHEDDER),
    )
    why = ""
    if placement in _MODULAR and shedding != placement:
        why = f"; {placement} places only where it sheds too, and {shedding} is configured"
    return Finding(
        _CHECK,
        "fail",
        text,
        "search the broker's log for 'load manager', correct broker.conf and restart the "
        f"broker{why} (Pulsar #26031)",
    )


def _where(listed: Sequence[Broker], names: Sequence[str]) -> str:
    """One broker per load manager, as an example."""
    return ", ".join(
        f"{next(broker.name for broker in listed if broker.manager == name)} runs {name}"
        for name in names
    )


def _sheds(broker: Broker) -> bool:
    given = broker.configuration
    return (
        given.get("loadBalancerSheddingEnabled") == "true"
        and given.get("loadBalancerEnabled") != "false"
    )
