"""Collects the meanings of reason codes from the rules that give them."""

from strategies.cluster import budget, quota
from strategies.filters import (
    anti_affinity,
    broker_filters,
    filter_order_and_settings,
    isolation,
)
from strategies.fold import rule_errors
from strategies.placement import contract, destinations
from strategies.placement.registry import PLACERS
from strategies.round import (
    busy_bundles,
    clearance,
    compared_resources,
    drain_step,
    participating_brokers,
    round,
    yielding,
)
from strategies.shedding import bundles_to_shed, candidates, reason_texts
from strategies.shedding.contract import SheddingStrategy
from strategies.splitting import due, when_extensible, when_modular
from strategies.states_and_advice_of_codes import Meanings

#: The modules with reason codes that belong to no single strategy or placement.
RULES = (
    *(budget, quota),
    *(anti_affinity, broker_filters, isolation, filter_order_and_settings),
    *(rule_errors, contract, destinations),
    *(busy_bundles, clearance, drain_step, compared_resources, round),
    *(participating_brokers, yielding),
    *(candidates, reason_texts, bundles_to_shed, due, when_extensible, when_modular),
)


def meanings_of(*strategies: SheddingStrategy) -> Meanings:
    """Returns code → meaning of all codes that rounds of these strategies may have."""
    meanings = [meaning for rule in RULES for meaning in rule.MEANINGS]
    meanings += [meaning for entry in PLACERS.values() for meaning in entry.meanings]
    meanings += [meaning for entry in strategies for meaning in entry.meanings]
    return {meaning.code: meaning for meaning in meanings}
