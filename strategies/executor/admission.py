"""Decides whether a command may be carried out: takes a command and facts, returns the reason
against it or None. Carries nothing out.

The decision has two steps, because facts about the cluster cost calls: `may_be_considered` needs no
such facts, `may_be_applied` does. Pulsar's unload call checks neither isolation policies nor system
bundles, so this module checks both.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from strategies.bundles import is_system_bundle, namespace_of
from strategies.cluster.model import Command, OutcomeStatus
from strategies.filters.isolation import isolated
from strategies.filters.policies import PoliciesView, read_policies
from strategies.patterns_and_windows import Window, is_open

#: Tolerated difference of clocks. A command from further in the future could be replayed for a very
#: long time.
MOST_AHEAD_MS = 300_000

Signature = Literal["signed", "unsigned", "wrong", "unchecked"]


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """The operator's rules. `allow`, `deny`: shell patterns of `tenant/namespace`; an empty `allow`
    or `windows` allows everything.
    """

    actions: frozenset[str] = frozenset({"unload", "transfer", "split"})
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """Facts about a command that need no call to the cluster.

    `newest_epoch`: newest epoch seen for the command's cluster, 0 if none; `earlier`: status of an
    earlier command with the same id, dry runs excluded; `paused`: the pause file exists;
    `paused_by`: the person and the reason of a pause by record, empty without one; `guard`: what
    the executor's breaker objects to every move.
    """

    now_ms: int
    signature: Signature = "unchecked"
    newest_epoch: int = 0
    earlier: OutcomeStatus | None = None
    paused: bool = False
    paused_by: str = ""
    guard: "Objection | None" = None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts from the cluster. `exists`: the namespace has this bundle; looked up only when no
    broker owns the bundle.

    `frozen`: a sentence about brokers that no longer read metadata; empty while all do. With a
    frozen broker, `owner` is not looked up. `guard`: what the state of the cluster objects to every
    move, or to every move of the namespace; then nothing else is looked up.
    """

    brokers: Sequence[str]
    owner: str | None
    policies: PoliciesView = PoliciesView()
    exists: bool = True
    frozen: str = ""
    guard: "Objection | None" = None


@dataclass(frozen=True, slots=True)
class Objection:
    """Reason for not carrying out a command: status of the outcome, stable code, sentence."""

    status: Literal["already-done", "refused", "expired"]
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def isolation_of(policies: Mapping[str, object], *, by_id: bool = False) -> PoliciesView:
    """Parses isolation policies: name → policy, in the form of the admin API. `by_id`: as in the
    view.
    """
    return replace(read_policies(json.dumps({"isolation": policies})), by_id=by_id)


def may_be_considered(
    command: Command, known: CommandFacts, rules: AdmissionRules
) -> Objection | None:
    """The first objection, in the order of the rules, that needs no facts from the cluster; None
    when there is none.
    """
    return (
        _forged(known)
        or _done_before(known)
        or _out_of_date(command, known)
        or _not_ours(command, rules)
        or _not_now(known, rules)
    )


def may_be_applied(command: Command, cluster: ClusterFacts) -> Objection | None:
    """The first objection from the current state of the cluster; None when the command may be
    applied.
    """
    if cluster.guard is not None:
        return cluster.guard
    if cluster.frozen:
        return frozen_objection(cluster.frozen)
    if cluster.owner is None and not cluster.exists:
        return Objection(
            "refused",
            "no-such-bundle",
            "the namespace has no such bundle (any more); it was split or deleted",
        )
    elsewhere = owner_objection(command, cluster.owner)
    if elsewhere is not None or command.destination is None:
        return elsewhere
    return _unfit(command, command.destination, cluster)


def owner_objection(command: Command, owner: str | None) -> Objection | None:
    """The objection to a command whose bundle is not at its source; None when it is."""
    if owner is None:
        return Objection(
            "refused", "not-owned", "no broker owns the bundle, so there is nothing to release"
        )
    if owner == command.destination:
        return Objection(
            "already-done",
            "at-destination",
            f"{owner} owns the bundle already; nothing was called",
        )
    if owner != command.source:
        return Objection(
            "refused", "moved-on", f"the bundle belongs to {owner} now, not to {command.source}"
        )
    return None


def frozen_objection(text: str) -> Objection | None:
    """No bundle moves while a broker is frozen: the frozen broker could become the next owner or
    the leader, and its bundles would then be unavailable until it restarts.
    """
    return Objection("refused", "broker-frozen", text) if text else None


def unowned_objection(bundle: str, since_ms: int, now_ms: int) -> Objection:
    """While no broker owns a bundle of a namespace, its other bundles stay where they are: what
    kept this one from being owned may keep them too.
    """
    return Objection(
        "refused",
        "unowned-bundle",
        f"no broker has owned {bundle} for {max(0, now_ms - since_ms) / 1000:.0f} s, since this "
        "executor moved it, and it had clients; no bundle of its namespace moves until it is owned",
    )


def older_epoch(epoch: int, newest: int) -> Objection:
    """The objection to a command of an epoch that a newer job has ended."""
    return Objection(
        "refused",
        "older-epoch",
        f"the command is of epoch {epoch}; a newer job has begun epoch {newest}",
    )


def _forged(known: CommandFacts) -> Objection | None:
    match known.signature:
        case "unsigned":
            return Objection(
                "refused",
                "unsigned",
                "the command carries no signature, and this executor has a key",
            )
        case "wrong":
            return Objection(
                "refused",
                "wrong-signature",
                "the signature does not belong to these bytes and this executor's key",
            )
    return None


def _out_of_date(command: Command, known: CommandFacts) -> Objection | None:
    if command.epoch < known.newest_epoch:
        return older_epoch(command.epoch, known.newest_epoch)
    if known.now_ms >= command.expires_at_ms:
        late_s = (known.now_ms - command.expires_at_ms) / 1000
        return Objection("expired", "expired", f"the command expired {late_s:.0f} s ago")
    if command.issued_at_ms > known.now_ms + MOST_AHEAD_MS:
        ahead_s = (command.issued_at_ms - known.now_ms) / 1000
        return Objection(
            "refused",
            "from-the-future",
            f"the command was issued {ahead_s:.0f} s ahead of this machine's clock; set the clocks",
        )
    return None


def _done_before(known: CommandFacts) -> Objection | None:
    match known.earlier:
        case None | "dry-run":
            return None
        case "applied" | "already-done":
            return Objection(
                "already-done", "replayed", "a command with this id was carried out before"
            )
        case "expired":
            return Objection("expired", "replayed", "a command with this id had expired before")
        case earlier:
            return Objection(
                "refused", "replayed", f"a command with this id came before and was {earlier}"
            )


def _not_ours(command: Command, rules: AdmissionRules) -> Objection | None:
    if command.action == "throttle":
        return Objection(
            "refused",
            "advice",
            "throttling is advice for people; this executor does not carry it out",
        )
    if command.action not in rules.actions:
        return Objection(
            "refused", "action-not-allowed", f"{command.action} is not one of executor.actions"
        )
    if command.action == "transfer" and command.destination is None:
        return Objection("refused", "no-destination", "a transfer needs a destination")
    if is_system_bundle(command.bundle):
        return Objection(
            "refused",
            "system-bundle",
            "the bundle belongs to Pulsar itself; a broker that loses it turns unhealthy",
        )
    namespace = namespace_of(command.bundle)
    if any(part in (".", "..") for part in namespace.split("/")) or namespace.count("/") != 1:
        return Objection(
            "refused", "namespace-name", f"{namespace} is not a valid Pulsar namespace"
        )
    if any(fnmatchcase(namespace, pattern) for pattern in rules.deny):
        return Objection("refused", "namespace-denied", f"{namespace} is on the list executor.deny")
    if rules.allow and not any(fnmatchcase(namespace, pattern) for pattern in rules.allow):
        return Objection(
            "refused", "namespace-not-allowed", f"{namespace} is not on the list executor.allow"
        )
    return None


def _not_now(known: CommandFacts, rules: AdmissionRules) -> Objection | None:
    if known.paused:
        return Objection(
            "refused", "paused", "this executor is paused; remove the pause file to resume"
        )
    if known.paused_by:
        return Objection(
            "refused",
            "paused",
            f"this executor is paused by {known.paused_by}; to resume: rebalancer plans resume",
        )
    if not is_open(rules.windows, known.now_ms):
        return Objection("refused", "outside-window", "the time is outside executor.windows")
    return known.guard


def _unfit(command: Command, destination: str, cluster: ClusterFacts) -> Objection | None:
    if destination not in cluster.brokers:
        return Objection(
            "refused",
            "destination-gone",
            f"{destination} is none of the {len(cluster.brokers)} live brokers",
        )
    refusal = isolated(cluster.policies, namespace_of(command.bundle), cluster.brokers).get(
        destination
    )
    return (
        None
        if refusal is None
        else Objection("refused", refusal.code, f"{destination} {refusal.text}")
    )
