"""Follows a bundle that was split because a person asked for it, or because a round named the child
that leaves and its destination: finds its children, lets them rest like bundles that moved, and
asks for the move of those that are to leave.

Of a round's split, the named child leaves. Of a person's, all children but the one with the lowest
hashes do. `pulsar-admin namespaces split-bundle -u` unloads all of them, and Pulsar may place any
of them where it was: here one stays, which spares its clients, and the others leave their broker
for certain.
"""

from collections.abc import Collection
from dataclasses import replace
from hashlib import blake2b

from strategies.averages.bundle_averages import unpack_history
from strategies.bundles import parse_bundle
from strategies.cluster.asked_by_hand import ASKED_WAITS_MS, Asked, AskedSplit
from strategies.cluster.cluster_state import ClusterState, StateStore, read_note
from strategies.cluster.remembered_intents import end_asked, with_asked
from strategies.figures.texts_of_counts_names_and_ages import counted, first_of
from strategies.states_and_advice_of_codes import CHECK_COLLECTOR, NOTHING


def note_split(state: ClusterState, split: Asked) -> ClusterState:
    """Returns the state after an executor has split the bundle. The next round, or the first one
    whose reports list its children, goes on with them.
    """
    text = "it is split; the next reports name the new bundles"
    split = replace(split, command_id="", since_ms=state.now_ms, text=text)
    return replace(state, intents=with_asked(state.intents, split))


def find_children(state: ClusterState, store: StateStore) -> ClusterState:
    """Returns the state after a look for the children of split bundles, in reports and notes where
    only the broker knows them. Reads these only while there is such a bundle.

    Where reports name all children, the bundle is split without an outcome too: after a warm start,
    outcomes are of commands of an earlier epoch.
    """
    waiting = [one for one in state.intents.asked.values() if one.state == "splitting"]
    names = _all_names(store) if waiting else frozenset[str]()
    for split in waiting:
        children = children_of(split, names)
        if split.command_id and not (children and names.issuperset(children)):
            continue
        if children:
            state = _go_on(state, split, children)
        elif state.now_ms - split.since_ms >= ASKED_WAITS_MS:
            text = "it is split, but reports do not name all new bundles [children-unknown]"
            ended = end_asked(
                state.intents,
                split.bundle,
                state.now_ms,
                "cancelled" if split.cut.moves_children else "done",
                text=text,
                advice=CHECK_COLLECTOR,
            )
            state = replace(state, intents=ended)
    return state


def _go_on(state: ClusterState, split: Asked, children: tuple[str, ...]) -> ClusterState:
    """Lets the children rest, and asks for the move of those that are to leave."""
    now_ms, split = state.now_ms, replace(split, command_id="")
    text = f"it is split into {counted(len(children), 'bundle')}: "
    text += first_of([child.rpartition("/")[2] for child in children], 4)
    state = replace(state, cooling={**state.cooling, **dict.fromkeys(children, now_ms)})
    if not (split.cut.moves_children or split.cut.leaves):
        ended = end_asked(state.intents, split.bundle, now_ms, "done", text=text, advice=NOTHING)
        return replace(state, intents=ended)
    leaving = children[1:] if split.cut.leaves is None else (split.cut.leaves,)
    ids = {
        child: blake2b(f"{split.id}\x1f{child}".encode(), digest_size=16).hexdigest()
        for child in leaving
    }
    move = replace(
        split,
        asked_ms=split.since_ms,
        since_ms=now_ms,
        state="asked",
        action="move",
        cut=AskedSplit(),
    )
    moves = {child: replace(move, id=id_, bundle=child) for child, id_ in ids.items()}
    if not split.is_by_hand:  # the rest is said by the command of the split, and by its outcome
        asked = {name: one for name, one in state.intents.asked.items() if name != split.bundle}
        return replace(state, intents=replace(state.intents, asked={**moves, **asked}))
    text, cut = f"{text}; all but the first one move", replace(split.cut, children=ids)
    split = replace(split, state="moving", since_ms=now_ms, text=text, cut=cut)
    return replace(state, intents=with_asked(state.intents, split, *moves.values()))


def children_of(split: Asked, names: Collection[str] = ()) -> tuple[str, ...]:
    """Returns the children of a split bundle, by their hashes; none if they are not known. `names`:
    bundles in reports, for an algorithm by which the broker finds the hashes of the cut.
    """
    parsed = parse_bundle(split.bundle)
    assert parsed is not None
    namespace, whole = parsed
    middle = [whole.middle] if split.cut.algorithm == "range_equally_divide" else []
    if boundaries := split.cut.positions or middle:
        return tuple(f"{namespace}/{part}" for part in whole.parts(boundaries))
    others = ((name, parse_bundle(name)) for name in names if name != split.bundle)
    inside = sorted(
        (other[1].lower, other[1].upper, name)
        for name, other in others
        if other is not None
        and other[0] == namespace
        and whole.lower <= other[1].lower < other[1].upper <= whole.upper
    )
    children, at = list[str](), whole.lower
    for lower, upper, name in inside:
        if lower == at:
            children.append(name)
            at = upper
    return tuple(children) if at == whole.upper else ()


def _all_names(store: StateStore) -> frozenset[str]:
    """Returns all bundles in reports, and in the collector's notes."""
    names = set[str]()
    for broker in store.brokers():
        table, note = store.get_table(broker.broker), read_note(broker.broker, store)
        names.update(() if table is None else unpack_history(table).newest.names)
        names.update(() if note is None else note.bundles)
    return frozenset(names)
