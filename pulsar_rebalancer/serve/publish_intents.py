"""Shows and publishes what operators ask for on the page: moves of bundles, as the command line
writes them, and the way back of a round's moves.

A record is signed with the key of intents and names the person of the token; the job accepts it, or
refuses it with a reason.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from pulsar_rebalancer.decisions.intents import IntentError, judge, write_intents
from pulsar_rebalancer.decisions.live.page_views import NO_ROUND, newest_of
from pulsar_rebalancer.decisions.live.plans_and_search import plans_now
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveCluster
from pulsar_rebalancer.decisions.preview import PresentCluster, Proposal
from pulsar_rebalancer.decisions.undo import applied_moves, way_back
from pulsar_rebalancer.serve.publish_decisions import error_sentence
from sinks.topics.topic_settings import Connections
from sinks.wire.names_and_times import check_bundles
from sinks.wire.operator_records import check_person
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.intent_records_and_states import ENDED, Intent
from strategies.cluster.model import Command, Outcome, Round
from strategies.errors import RebalancerError, WireError

NO_KEY = (
    "The page cannot sign moves: set signing.intents_key_file to the key that the job has, then "
    "start `rebalancer serve` again."
)
_OTHER_SETTINGS = (
    "The job decides by another strategy than the settings of this page name, and what is shown "
    "follows these: start the page with the job's settings."
)
#: Reason in the records of a preview, which are not written.
_PREVIEW = "a preview"
#: Age (ms) up to which a cluster that was read is shown again, within one round.
_FRESH_MS = 60_000


class _AskedMove(msgspec.Struct, forbid_unknown_fields=True):
    bundle: str
    to: str | None = None


class _Moves(msgspec.Struct, forbid_unknown_fields=True, tag_field="action", tag="move"):
    moves: Annotated[list[_AskedMove], msgspec.Meta(min_length=1)]
    reason: str = ""


class _Undo(msgspec.Struct, forbid_unknown_fields=True, tag_field="action", tag="undo"):
    epoch: int
    round: int


@dataclass(frozen=True)
class IntentPublisher:
    """`key`: of the records; None = the page writes nothing. `present`: reads a cluster as its next
    round will find it; `required`: whether commands wait for people.
    """

    connections: Connections
    key: SigningKey | None
    now_ms: Callable[[], int]
    present: Callable[[Round], PresentCluster]
    required: bool = False
    #: When a cluster was read last, and what was read: the next destination needs no other.
    _read: list[tuple[int, PresentCluster]] = field(default_factory=list)
    #: A preview reads minutes of telemetry: one at a time.
    _previews: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def ask(self, one: LiveCluster, by: str, body: dict[str, object]) -> list[Intent]:
        """Publishes the moves in a request's body, all or none: `action` (move), `reason`, and
        `moves`, each with `bundle` and `to` (null = any broker). Raises HTTPException with 400, 409
        or 503 and a sentence.
        """
        newest, asked = self._newest(one), _converted(body, _Moves)
        intents = self._intents(one, by, asked.reason, asked.moves)
        for intent in intents:
            why = judge(newest, intent)
            if why is not None:
                raise HTTPException(409, f"{why.line} Nothing has changed.")
        try:
            await run_in_threadpool(write_intents, self.connections, self.key, intents)
        except RebalancerError as error:
            raise HTTPException(503, error_sentence(error)) from None
        return intents

    async def preview(
        self, one: LiveCluster, by: str, body: dict[str, object]
    ) -> dict[str, object]:
        """What the next round would do with the moves in a request's body, or with those that undo
        a round: `action` (undo), `epoch` and `round`. Raises HTTPException as `ask`.
        """
        newest, asked = self._newest(one), _converted(body, _Moves | _Undo)
        async with self._previews:
            try:
                return await run_in_threadpool(self._preview, one, by, newest, asked)
            except IntentError as error:
                raise HTTPException(409, error_sentence(error)) from None
            except RebalancerError as error:
                raise HTTPException(503, error_sentence(error)) from None

    def _preview(
        self, one: LiveCluster, by: str, newest: Round, asked: _Moves | _Undo
    ) -> dict[str, object]:
        now_ms, stays = self.now_ms(), list[dict[str, object]]()
        kept = [
            one for one in self._read if one[1].newest is newest and one[0] > now_ms - _FRESH_MS
        ]
        self._read[:] = kept or [(now_ms, self.present(newest))]
        present = self._read[0][1]
        if isinstance(asked, _Undo):
            backs = [
                (done.bundle, *way_back(done, said, present))
                for done, said in _moves_of(one, asked)
            ]
            moves = [_AskedMove(bundle, to) for bundle, to, _ in backs if to is not None]
            stays = [
                {"bundle": bundle, "state": "stays", "text": why}
                for bundle, to, why in backs
                if to is None
            ]
        else:
            moves = asked.moves
        intents = self._intents(one, by, _PREVIEW, moves)
        return {
            "moves": [*map(_shown, present.preview(intents)), *stays],
            "measured": present.measured,
            "approval": self.required,
            "notes": [] if newest.strategy == present.strategy else [_OTHER_SETTINGS],
        }

    def _newest(self, one: LiveCluster) -> Round:
        if self.key is None:
            raise HTTPException(409, NO_KEY)
        newest = newest_of(one.decisions)
        if newest is None:
            raise HTTPException(409, NO_ROUND)
        return newest

    def _intents(
        self, one: LiveCluster, by: str, reason: str, moves: Sequence[_AskedMove]
    ) -> list[Intent]:
        bundles = [move.bundle for move in moves]
        try:
            check_person(by, reason)
            check_bundles(bundles, "moves ({})")
        except WireError as error:
            raise HTTPException(400, error.text.removeprefix("$.")) from None
        if len({*bundles}) < len(bundles):
            raise HTTPException(400, "moves lists a bundle twice; list each bundle once.")
        now_ms = self.now_ms()
        return [
            Intent(
                one.cluster,
                now_ms + place,  # keeps the order
                secrets.token_hex(16),
                "move",
                by,
                reason,
                move.to,
                bundle=move.bundle,
            )
            for place, move in enumerate(moves)
        ]


def _converted(body: dict[str, object], kind: Any) -> Any:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"The body does not fit: {error}.") from None


def _moves_of(one: LiveCluster, undo: _Undo) -> list[tuple[Command, Outcome]]:
    """The applied moves of the round. Raises IntentError if there are none."""
    plans = (
        plan for plan in plans_now(one) if (plan.epoch, plan.round) == (undo.epoch, undo.round)
    )
    found = [move for plan in plans for move in applied_moves(plan)]
    if not found:
        raise IntentError(f"round {undo.round} has no moves that an executor has applied")
    return found


def _shown(one: Proposal) -> dict[str, object]:
    """A proposal for the page."""
    shown: dict[str, object] = {
        "bundle": one.intent.bundle,
        "asked_to": one.intent.broker,
        "text": one.status.text,
        "advice": one.status.advice,
        "state": "waits",
    }
    command, bundle = one.command, one.bundle
    if one.status.state in ENDED or bundle is None:
        shown["state"] = "stays" if one.status.state == "done" else "refused"
    elif command is not None:
        shown |= {
            "state": "moves",
            "from": command.source,
            "to": command.destination,
            "before": [command.expected.source_before, command.expected.destination_before],
            "after": [command.expected.source_after, command.expected.destination_after],
            "topics": bundle.topics,
            "throughput": bundle.throughput,
            "pause_ms": bundle.pause_ms,
        }
    return shown
