"""What people do by hand on real brokers with clients, tokens and both load managers: done as it is
shown before, or refused, and then nothing changes.

`pytest tests/servers/test_by_hand.py -m slow -rP` prints what they see.
"""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from strategies.bundles import parse_bundle
from tests.servers.test_closed_loop import (
    all_have_outcomes,
    assert_replay_is_identical,
    nothing_was_lost,
    wait_for_rounds,
)
from tests.servers.test_drain import Scene, bound, scene
from tests.servers.verdicts import every_command_has_one_outcome
from tools.processes.loop import Program
from tools.processes.operating import Said
from tools.processes.process import Process
from tools.traffic.racing import topics_in
from tools.traffic.skewed_users import Users, skewed_users

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
WHY = ("--reason", "new disks", "--by", "anna")


@pytest.fixture(scope="module", params=["modular", "extensible"])
def at(
    jdk: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """For all tests of a load manager, in their order."""
    folder = tmp_path_factory.mktemp(f"by-hand-{request.param}")
    with scene(folder, request.param) as made:
        yield made


@pytest.fixture(scope="module")
def few(at: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    """The busiest bundles: four, at home on the first broker."""
    with skewed_users(
        at.processes.cluster,
        tmp_path_factory.mktemp("few"),
        "t/few",
        bundles=4,
        msgs=400.0,
        homes=at.brokers[:1],
        weights=lambda names: [4.0, 2.0, 1.0, 1.0],
    ) as users:
        at.loop.wait_until(lambda: all(one in listed(at) for one in users.rates), "all are listed")
        yield users


def test_moves_are_done_as_shown_and_undone(at: Scene, few: Users) -> None:
    second = at.brokers[1]
    bundle = max(few.rates, key=lambda one: few.rates[one])
    (row,) = done(at, "move", few.topics[bundle], "--to", second)
    assert (row["bundle"], row["destination"]) == (bundle, second)
    is_as_shown(at, few, [row])

    rows = done(at, "unload", "t/few")
    assert {one["bundle"] for one in rows} == set(few.rates)
    is_as_shown(at, few, rows)

    newest = [one for one in at.loop.commands() if one.bundle in few.rates][-1].round
    undone = done(at, "undo", str(newest))
    sources = {one.bundle: one.source for one in at.loop.commands() if one.round == newest}
    assert {one["bundle"]: one["destination"] for one in undone} == sources
    is_as_shown(at, few, undone)

    said = at.operator.runs("explain", bundle)
    assert "anna asked for it (new disks)" in said.text


def test_what_may_not_be_is_not_done(at: Scene, few: Users) -> None:
    first, second, *_ = at.brokers
    bundle = max(few.rates, key=lambda one: few.rates[one])  # reports may list the busiest only
    here = few.owners()[bundle]
    there = next(one for one in at.brokers if one != here)
    before = len(at.loop.commands()), few.owners()

    with bound(at, second):
        (range_,) = at.users.admin.ranges("t/bound")
        told = runs(at, "move", f"t/bound/{range_}", "--to", first)
        assert told.code in (1, 6)
    assert runs(at, "move", bundle, "--to", there, "--yes", "--cluster", "other").code == 1
    assert runs(at, "move", bundle, "--to", "10.9.8.7:8080", "--yes").code == 1

    record = next(one for one in reversed(at.loop.read("telemetry")) if b'"kind":"intent"' in one)
    at.loop.topics.write("telemetry", [record])
    words = ("move", bundle, "--to", there, "--yes", *WHY, *at.loop.words)
    log = at.loop.folder / "keyless.log"
    with Process(log, *words, settings={"signing.intents_key_file": ""}) as keyless:
        code = keyless.ended(400.0)
        print(keyless.said)
        assert (code, "intent-unsigned" in keyless.said) == (1, True)
    wait_for_rounds(3, at.loop)
    assert (len(at.loop.commands()), few.owners()) == before

    at.operator.runs("drain", there, "--no-wait", *WHY)
    at.loop.wait_until(lambda: bool(at.operator.active("drain")), "a round has the drain")
    told = runs(at, "move", bundle, "--to", there)
    at.operator.runs("undrain", there)
    assert told.code in (1, 6)
    assert "being-drained" in told.text


def test_who_is_killed_meanwhile_moves_nothing_twice(at: Scene, few: Users) -> None:
    chance, victims = Random(7), list[Program](["execute", "run", "execute"])
    for bundle, victim in zip(sorted(few.rates), victims, strict=False):
        to = next(one for one in at.brokers if one != few.owners()[bundle])
        unloads = at.processes.unloads(bundle)
        with at.operator.begins("move", bundle, "--to", to, "--yes", *WHY) as asked:
            at.loop.wait_until(lambda: "asked to move" in asked.said, "it is asked")
            time.sleep(6 * chance.random())
            at.loop.kill(victim)
            at.loop.start(victim)
            code = asked.ended(300.0)
            print(victim, asked.said)
        assert code == 0
        assert few.owners()[bundle] == to
        # A repair, and an unload that a death left in doubt, is a second one.
        cost = next(one for one in reversed(at.loop.outcomes()) if one.bundle == bundle).cost
        assert at.processes.unloads(bundle) - unloads <= (cost.unloads or 1)
    assert every_command_has_one_outcome(all_have_outcomes(at.loop), at.loop)


def test_bundles_are_split_and_their_halves_leave(at: Scene, few: Users) -> None:
    bundle = max(few.rates, key=lambda one: few.rates[one])
    start, end = ends(bundle)
    middle = (start + end) // 2
    for topic in {*topics_in(bundle, 3)} - {few.topics[bundle]}:  # Pulsar cuts none with one topic
        at.processes.cluster.put(topic.replace("://", "/"), {})
    home = few.owners()[bundle]
    to = next(one for one in at.brokers if one != home)

    done(at, "split", bundle, "--at", f"{middle:#x}", "--move", "--to", to)

    assert {(start, middle), (middle, end)} <= {ends(f"t/few/{one}") for one in ranges(at)}
    upper = f"t/few/0x{middle:08x}_0x{end:08x}"
    at.loop.wait_until(lambda: at.users.admin.owner(upper) == to, "the upper half has left")
    count = len(ranges(at))
    done(at, "split", "hottest")
    assert len(ranges(at)) == count + 1


def test_clients_lost_nothing_and_replay_gives_the_same_bytes(
    at: Scene, few: Users, tmp_path: Path
) -> None:
    at.loop.stop("collect", "execute")
    assert nothing_was_lost(few.end())
    assert nothing_was_lost(at.users.end())
    assert {one.code for one in at.loop.commands()} <= {"by-hand", "drain"}
    assert_replay_is_identical(at.loop, tmp_path)


def runs(at: Scene, *words: str) -> Said:
    said = at.operator.runs(*words, *WHY)
    print(said.text)
    assert "Traceback" not in said.text
    return said


def done(at: Scene, *words: str) -> list[dict[str, Any]]:
    """What a command that succeeds shows before, one object per bundle."""
    print(at.operator.runs(*words, *WHY).text)  # as a person sees it who does not say yes
    said = at.operator.runs(*words, "--yes", "--json", *WHY)
    print(said.text)
    assert said.code == 0
    shown = document(said)
    rows: list[dict[str, Any]] = shown["splits" if words[0] == "split" else "moves"]
    assert rows
    return rows


def is_as_shown(at: Scene, users: Users, rows: Sequence[dict[str, Any]]) -> None:
    """The bundles are where they were said to go, and the next reports list them there."""
    wait_for_rounds(3, at.loop)
    owners = users.owners()
    assert {one["bundle"]: one["destination"] for one in rows} == {
        one["bundle"]: owners[one["bundle"]] for one in rows
    }


def listed(at: Scene) -> set[str]:
    said = at.operator.runs("unload", "t/few", "--json", *WHY)
    return {row["bundle"] for row in document(said).get("moves", ())}


def document(said: Said) -> dict[str, Any]:
    """The JSON among what a command prints; empty without one."""
    start = f"\n{said.text}".find("\n{")
    found: dict[str, Any] = {}
    return found if start < 0 else json.JSONDecoder().raw_decode(said.text[start:])[0]


def ranges(at: Scene) -> list[str]:
    return list(at.users.admin.ranges("t/few"))


def ends(bundle: str) -> tuple[int, int]:
    parsed = parse_bundle(bundle)
    assert parsed is not None
    return parsed[1].lower, parsed[1].upper
