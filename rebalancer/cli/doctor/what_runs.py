"""The load manager and the shedder that brokers run, which need not be those that broker.conf names.

A broker older than Pulsar 4.2.4 whose load manager cannot be created runs SimpleLoadManagerImpl instead and goes on (apache/pulsar pull
request 26031); any broker goes on with the old one, or with none, after a dynamic change of `loadManagerClassName` that fails. The
extensible load manager runs TransferShedder in place of every class that is not made for it (UnloadScheduler).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalancer.cli.doctor.brokers import Broker
from rebalancer.cli.doctor.finding import Finding, ok
from sinks.pulsar_api.settings import PulsarSettings
from strategies.shedding.registry import EXTENSIBLE, SHEDDERS

_CHECK = "load manager"
_SHEDDER = "loadBalancerLoadSheddingStrategy"
#: Shedders that the modular load manager runs; the extensible one cannot.
_MODULAR = frozenset(strategy.java_class for strategy in SHEDDERS.values() if strategy.load_manager == "modular")


def check_load_manager(listed: Sequence[Broker], settings: PulsarSettings) -> Finding:
    """One for all, the one that was configured, and the one that was stated?"""
    fallen = [broker for broker in listed if broker.runs and broker.configured and broker.runs != broker.configured]
    if fallen:
        return _fallen_back(fallen)
    names = sorted({broker.manager for broker in listed if broker.manager})
    text = " and ".join(names) or "unknown"
    if len(names) > 1:
        remedy = "finish the migration: brokers with different load managers do not see each other's load"
        return Finding(_CHECK, "fail", f"{text}: {_where(listed, names)}", remedy)
    stated = settings.load_manager
    if names and stated != "auto" and not names[0].lower().startswith(stated):
        return Finding(_CHECK, "fail", f"{text}; pulsar.load_manager says {stated}", "set pulsar.load_manager to auto")
    if names and not names[0].startswith(("Modular", "Extensible")):
        remedy = "set loadManagerClassName to ModularLoadManagerImpl or ExtensibleLoadManagerImpl: this one's figures cannot be read"
        return Finding(_CHECK, "fail", text, remedy)
    return ok(_CHECK, text)


def check_shedder(listed: Sequence[Broker]) -> Iterator[Finding]:
    """The built-in shedder that runs, or would run if shedding were on. Worth a warning where it is on and another is configured."""
    known = [broker for broker in listed if broker.class_of(_SHEDDER)]
    if not known:
        return
    runs = sorted({_shedder(broker) for broker in known})
    replaced = [broker for broker in known if _shedder(broker) != broker.class_of(_SHEDDER)]
    text = " and ".join(runs)
    if replaced:
        configured = " and ".join(sorted({broker.class_of(_SHEDDER) for broker in replaced}))
        text += f": the extensible load manager runs it in place of {configured}, which is configured"
    if any(map(_sheds, replaced)):
        remedy = f"set {_SHEDDER}={EXTENSIBLE.pulsar_class}, so that broker.conf says what runs"
        yield Finding("built-in shedder", "warn", text, remedy)
    elif len(runs) > 1:
        yield Finding("built-in shedder", "warn", text, "configure the same on all brokers: the leader's counts, and the leader may change")
    else:
        yield ok("built-in shedder", text if any(map(_sheds, known)) else f"{text}, and shedding is off")


def effective_shedder(manager: str, configured: str) -> str:
    """What a load manager runs for a configured class; of classes that are not Pulsar's own nobody outside knows."""
    return EXTENSIBLE.java_class if manager.startswith("Extensible") and configured in _MODULAR else configured


def _shedder(broker: Broker) -> str:
    return effective_shedder(broker.manager, broker.class_of(_SHEDDER))


def _fallen_back(fallen: Sequence[Broker]) -> Finding:
    first = fallen[0]
    more = f" and {len(fallen) - 1} more" if len(fallen) > 1 else ""
    text = f"{first.name}{more} runs {first.runs}, although {first.configured} is configured: it could not be created, or not be changed to"
    placement, shedding = first.class_of("loadBalancerLoadPlacementStrategy"), first.class_of(_SHEDDER)
    why = ""
    if placement in _MODULAR and shedding != placement:
        why = f"; {placement} places only where it sheds too, and {shedding} is configured"
    remedy = f"look for 'load manager' in the broker's log, correct broker.conf and restart the broker{why} (Pulsar #26031)"
    return Finding(_CHECK, "fail", text, remedy)


def _where(listed: Sequence[Broker], names: Sequence[str]) -> str:
    """An example of each."""
    return ", ".join(f"{next(broker.name for broker in listed if broker.manager == name)} runs {name}" for name in names)


def _sheds(broker: Broker) -> bool:
    given = broker.configuration
    return given.get("loadBalancerSheddingEnabled") == "true" and given.get("loadBalancerEnabled") != "false"
