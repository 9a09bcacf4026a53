"""Derives the state of each move and split that was asked for from a round, and asks for the move
of the children that its own splits name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strategies.cluster.asked_by_hand import ASKED_WAITS_MS, Asked, AskedSplit, AskedState
from strategies.cluster.model import Command
from strategies.cluster.remembered_intents import Intents, end_asked, with_asked
from strategies.figures.texts_of_counts_names_and_ages import age, counted
from strategies.round.busy_bundles import UNKNOWN_BUNDLE
from strategies.round.clearance import LATER
from strategies.round.drain_progress import NO_EXECUTOR, PASSING
from strategies.round.drain_step import ALREADY_THERE, WAITS
from strategies.round.round_input_and_digest import Rules
from strategies.states_and_advice_of_codes import NOTHING, Meaning, Meanings, Refusal

#: Codes of refusals for which a child that a round wants to move waits; others end it, because the
#: next rounds decide on what they find then.
_WAITS_FOR = LATER | PASSING | {UNKNOWN_BUNDLE.code, "roll-halted"}


def update_asked(
    intents: Intents,
    commands: Sequence[Command],
    refused: Mapping[str, Refusal],
    now_ms: int,
    rules: Rules,
) -> Intents:
    """Returns the intents after a round: a move or a split has a command, waits, or has ended.
    `commands`: all of the round; `refused`: bundle that was asked for → why it waits.
    """
    commanded = {command.evidence.get("intent"): command for command in commands}
    for bundle, asked in intents.asked.items():
        command, why = commanded.get(asked.id), refused.get(bundle)
        if asked.command_id and now_ms >= asked.expires_at_ms + rules.round.cool_down_ms:
            text = "its command expired without an answer [no-answer]"
            intents = end_asked(intents, bundle, now_ms, "cancelled", text=text, advice=NO_EXECUTOR)
        elif command is not None:
            intents = with_asked(intents, _commanded(asked, command))
        elif why is not None:
            intents = _wait_or_end(intents, asked, why, now_ms, rules.meanings)
        elif asked.cut.children:
            intents = _end_if_moved(intents, asked, now_ms)
    for command in commands:
        before = intents.asked.get(command.bundle)
        if "leaves" in command.evidence and (before is None or not before.is_by_hand):
            intents = with_asked(intents, _asked_by_round(command))
    return intents


def _asked_by_round(command: Command) -> Asked:
    """Returns a round's split, whose evidence names the child that leaves and its destination."""
    to, leaves = (str(command.evidence[key]) for key in ("destination", "leaves"))
    asked = Asked(
        command.id,
        command.bundle,
        to,
        f"round {command.round}",
        f"to relieve {command.source} of a part of {command.bundle}",
        command.issued_at_ms,
        command.issued_at_ms,
        action="split",
        cut=AskedSplit(positions=command.boundaries, leaves=leaves),
        code=command.code,
    )
    return _commanded(asked, command)


def _commanded(asked: Asked, command: Command) -> Asked:
    text = f"leaves {command.source} for {command.destination or 'another broker'}"
    if not command.is_move:
        text = f"{command.source} splits it by {command.algorithm}: {command.text}"
    return replace(
        asked,
        state="moving" if command.is_move else "splitting",
        since_ms=command.issued_at_ms,
        command_id=command.id,
        expires_at_ms=command.expires_at_ms,
        source=command.source,
        cut=replace(asked.cut, algorithm=command.algorithm),
        text=text,
        advice=NOTHING,
    )


def _wait_or_end(
    intents: Intents, asked: Asked, why: Refusal, now_ms: int, meanings: Meanings
) -> Intents:
    """Lets a bundle wait that no round may move or split, and gives it up in the end; at once a
    child that a round wants to move and that its destination must not take.
    """
    text = f"it {why.text}"
    if why.code == ALREADY_THERE:
        return end_asked(intents, asked.bundle, now_ms, "done", text=text, advice=NOTHING)
    text = f"{text} [{why.code}]"
    advice = meanings.get(why.code, Meaning(why.code)).advice or NOTHING
    waited_ms = now_ms - asked.asked_ms
    ends = not (asked.is_by_hand or why.code in _WAITS_FOR)
    if why.code != WAITS and waited_ms >= ASKED_WAITS_MS:  # what waits for others has its turn
        text, ends = f"{text}, for {age(waited_ms)}", True
    if ends:
        return end_asked(intents, asked.bundle, now_ms, "cancelled", text=text, advice=advice)
    # An alert about blocked intents calls for a person; a round's child needs none.
    state: AskedState = "blocked" if asked.is_by_hand else "asked"
    since_ms = asked.since_ms if asked.state == state else now_ms
    waits = replace(asked, state=state, since_ms=since_ms, text=text, advice=advice)
    return with_asked(intents, waits)


def _end_if_moved(intents: Intents, split: Asked, now_ms: int) -> Intents:
    """Ends a split whose children no longer move."""
    ids = {*split.cut.children.values()}
    if any(one.id in ids for one in intents.asked.values()):
        return intents
    stays = [one for one in intents.ended if one.id in ids and one.state != "done"]
    if stays:
        text = f"it is split, but {stays[0].bundle} stays: {stays[0].text}"
        advice = stays[0].advice
        return end_asked(intents, split.bundle, now_ms, "cancelled", text=text[:300], advice=advice)
    text = f"it is split, and {counted(len(ids), 'new bundle')} moved"
    return end_asked(intents, split.bundle, now_ms, "done", text=text, advice=NOTHING)
