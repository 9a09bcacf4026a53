"""Derives the state of each move that a person asked for from a round."""

from dataclasses import replace

from strategies.cluster.remembered_intents import BY_HAND, MOVE_WAITS_MS, Intents, end_move
from strategies.figures.texts_of_counts_names_and_ages import age
from strategies.round.commands_and_record import command_id
from strategies.round.drain_step import ALREADY_THERE, WAITS, Evacuation
from strategies.round.round_input_and_digest import RoundInput, Rules
from strategies.states_and_advice_of_codes import NOTHING, Meaning

_NO_EXECUTOR = "Check with `rebalancer status` that an executor runs and applies commands."


def update_asked_moves(
    intents: Intents, round_input: RoundInput, evacuation: Evacuation, rules: Rules
) -> Intents:
    """Returns the intents after a round: a move has a command, waits, or has ended."""
    now_ms = round_input.now_ms
    for bundle, move in intents.moves.items():
        decision, why = evacuation.leaving.get(bundle), evacuation.refused.get(bundle)
        if move.state == "moving" and now_ms >= move.expires_at_ms + rules.round.cool_down_ms:
            text = "its command expired without an answer [no-answer]"
            intents = end_move(intents, bundle, now_ms, "cancelled", text=text, advice=_NO_EXECUTOR)
        elif decision is not None and decision.code == BY_HAND:
            action = "unload" if decision.destination is None else "transfer"
            moving = replace(
                move,
                state="moving",
                since_ms=now_ms,
                command_id=command_id(
                    round_input.cluster, rules.round.epoch, round_input.number, action, bundle
                ),
                expires_at_ms=now_ms + rules.round.command_ttl_ms,
                text=f"leaves {decision.source} for {decision.destination or 'another broker'}",
            )
            intents = replace(intents, moves={**intents.moves, bundle: moving})
        elif why is not None and why.code == ALREADY_THERE:
            intents = end_move(
                intents, bundle, now_ms, "done", text=f"it {why.text}", advice=NOTHING
            )
        elif why is not None:
            text = f"it {why.text} [{why.code}]"
            advice = rules.meanings.get(why.code, Meaning(why.code)).advice or NOTHING
            # What waits for other moves has its turn.
            if why.code != WAITS and now_ms - move.asked_ms >= MOVE_WAITS_MS:
                text = f"{text}, for {age(now_ms - move.asked_ms)}"
                intents = end_move(intents, bundle, now_ms, "cancelled", text=text, advice=advice)
            else:
                since_ms = move.since_ms if move.state == "blocked" else now_ms
                waits = replace(move, state="blocked", since_ms=since_ms, text=text, advice=advice)
                intents = replace(intents, moves={**intents.moves, bundle: waits})
    return intents
