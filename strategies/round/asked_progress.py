"""Derives the state of each move and split that a person asked for from a round."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strategies.cluster.asked_by_hand import ASKED_WAITS_MS, BY_HAND, Asked
from strategies.cluster.model import Command
from strategies.cluster.remembered_intents import Intents, end_asked
from strategies.figures.texts_of_counts_names_and_ages import age, counted
from strategies.round.drain_step import ALREADY_THERE, WAITS
from strategies.round.round_input_and_digest import Rules
from strategies.states_and_advice_of_codes import NOTHING, Meaning, Meanings, Refusal

_NO_EXECUTOR = "Check with `rebalancer status` that an executor runs and applies commands."


def update_asked(
    intents: Intents,
    commands: Sequence[Command],
    refused: Mapping[str, Refusal],
    now_ms: int,
    rules: Rules,
) -> Intents:
    """Returns the intents after a round: a move or a split has a command, waits, or has ended.
    `commands`: all of the round; `refused`: bundle that a person asked for → why it waits.
    """
    commanded = {command.bundle: command for command in commands if command.code == BY_HAND}
    for bundle, asked in intents.asked.items():
        command, why = commanded.get(bundle), refused.get(bundle)
        if asked.command_id and now_ms >= asked.expires_at_ms + rules.round.cool_down_ms:
            text = "its command expired without an answer [no-answer]"
            intents = end_asked(
                intents, bundle, now_ms, "cancelled", text=text, advice=_NO_EXECUTOR
            )
        elif command is not None:
            intents = _with(intents, _commanded(asked, command))
        elif why is not None:
            intents = _wait_or_end(intents, asked, why, now_ms, rules.meanings)
        elif asked.cut.children:
            intents = _end_if_moved(intents, asked, now_ms)
    return intents


def _with(intents: Intents, asked: Asked) -> Intents:
    return replace(intents, asked={**intents.asked, asked.bundle: asked})


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
    """Lets a bundle wait that no round may move or split, and gives it up in the end."""
    text = f"it {why.text}"
    if why.code == ALREADY_THERE:
        return end_asked(intents, asked.bundle, now_ms, "done", text=text, advice=NOTHING)
    text = f"{text} [{why.code}]"
    advice = meanings.get(why.code, Meaning(why.code)).advice or NOTHING
    waited_ms = now_ms - asked.asked_ms
    if why.code != WAITS and waited_ms >= ASKED_WAITS_MS:  # what waits for others has its turn
        text = f"{text}, for {age(waited_ms)}"
        return end_asked(intents, asked.bundle, now_ms, "cancelled", text=text, advice=advice)
    since_ms = asked.since_ms if asked.state == "blocked" else now_ms
    waits = replace(asked, state="blocked", since_ms=since_ms, text=text, advice=advice)
    return _with(intents, waits)


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
