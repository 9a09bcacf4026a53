"""What `rebalancer explain` says of commands that were carried out, refused, only rehearsed or
never answered, and what words it knows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.codec import (
    decode_command,
    decode_outcome,
    decode_round,
    encode_command,
    encode_round,
)
from sinks.wire.encoding import encode_outcome, encode_outcome_telemetry
from strategies.bundles.ranges import parse_bundle, topic_hash
from strategies.cluster.model import Command, Outcome, Skip
from tests.control_topic import outcome
from tests.telemetry_lines import bundle, load_report, sweep
from tests.unit.command_line import Answer, rebalancer
from tests.unit.uneven_log import EAGER_WORDS, recorded, uneven


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job that has held five rounds; the first moves bundles off hot:1."""
    rebalancer(
        "replay", recorded(tmp_path, uneven(rounds=5)), "--out", tmp_path / "job", *EAGER_WORDS
    )
    return tmp_path / "job"


def commands(folder: Path) -> list[Command]:
    return [decode_command(line) for line in (folder / "commands.jsonl").read_bytes().splitlines()]


def say(folder: Path, *outcomes: Outcome) -> None:
    with (folder / "outcomes.jsonl").open("ab") as file:
        file.writelines(encode_outcome(one) + b"\n" for one in outcomes)


def explained(folder: Path, *words: object) -> Answer:
    return rebalancer("explain", *words, "--from", folder)


REFUSED = "paused: this executor is paused"


class TestOutcomes:
    def test_a_refused_command_reads_as_refused_wherever_it_is_shown(self, job: Path) -> None:
        first, *others = commands(job)
        say(job, outcome(first, "refused", REFUSED), *(outcome(one, "applied") for one in others))
        for word in (first.id, 1, first.bundle):
            assert f"refused ({REFUSED})" in explained(job, word).out
        for broker in ("hot:1", "idle:1"):
            assert "1 refused: paused" in explained(job, broker).out

    def test_of_outcomes_that_contradict_each_other_the_one_that_moved_the_bundle_counts(
        self, job: Path
    ) -> None:
        first = commands(job)[0]
        say(
            job,
            outcome(first, "failed", "cluster-silent: no answer", 5),
            outcome(first, "applied", seconds=6),
            outcome(first, "refused", REFUSED, 7),
        )
        told = [line for line in explained(job, first.id).out.splitlines() if "outcome:" in line]
        assert [line.partition("UTC: ")[2].split()[0] for line in told] == [
            "failed",
            "applied,",
            "refused",
        ]
        assert "1 applied" in explained(job, "hot:1").out
        assert f"{first.bundle}: applied, now on idle:1" in explained(job, 1).out

    def test_an_outcome_of_another_cluster_or_bundle_is_none_of_this_command(
        self, job: Path
    ) -> None:
        first = commands(job)[0]
        say(
            job,
            replace(outcome(first, "applied"), cluster="other"),
            replace(outcome(first, "applied"), bundle="t/other/0x00000000_0x10000000"),
        )
        assert "applied" not in explained(job, first.id).out

    def test_an_applied_one_says_where_the_bundle_is(self, job: Path) -> None:
        first = commands(job)[0]
        say(job, outcome(first, "applied"))
        assert "UTC: applied, now on idle:1" in explained(job, first.id).out
        assert f"{first.bundle}: applied, now on idle:1" in explained(job, 1).out

    def test_the_history_of_a_command_is_told_in_order_and_the_real_verdict_counts(
        self, job: Path
    ) -> None:
        first = commands(job)[0]
        dry, done = (
            outcome(first, "dry-run", "dry-run: would transfer"),
            outcome(first, "applied", seconds=9),
        )
        again = outcome(
            first, "already-done", "replayed: a command with this id was carried out before", 20
        )
        say(job, dry, done, done, again)
        lines = [
            line.partition("UTC: ")[2]
            for line in explained(job, first.id).out.splitlines()
            if "outcome:" in line
        ]
        assert lines == [
            "dry run, no bundle was moved",
            "applied, now on idle:1",
            "already-done (replayed: a command with this id was carried out before)",
        ]
        assert f"{first.bundle}: applied, now on idle:1" in explained(job, 1).out

    def test_a_command_without_an_outcome_is_open_or_was_never_answered(self, job: Path) -> None:
        first, second, *_ = commands(job)
        say(job, outcome(first, "applied"))
        assert "outcome: none yet" in explained(job, second.id).out
        say(job, outcome(first, "already-done", seconds=100_000))
        assert (
            "outcome: none: no executor answered before it expired" in explained(job, second.id).out
        )

    def test_a_bundle_that_rests_names_the_command_it_rests_for(self, job: Path) -> None:
        first = commands(job)[0]
        say(job, outcome(first, "failed", "unanswered: the broker did not answer"))
        rounds = [decode_round(line) for line in (job / "rounds.jsonl").read_bytes().splitlines()]
        rest = Skip(
            "bundle",
            (first.bundle,),
            "cooling-down",
            "it was moved a short while ago and its cool-down is not over",
            "hot:1",
        )
        rounds[1] = replace(rounds[1], skips=(*rounds[1].skips, rest))
        (job / "rounds.jsonl").write_bytes(b"".join(encode_round(one) + b"\n" for one in rounds))
        told = explained(job, first.bundle).out
        assert (
            f"[cooling-down], since command {first.id} of round 1: failed (unanswered: the "
            "broker did not answer)" in told
        )

    def test_where_no_outcomes_are_at_hand_nothing_is_claimed(self, job: Path) -> None:
        first = commands(job)[0]
        assert (
            "outcome: unknown: no outcomes were read; name their topic with --outcomes"
            in explained(job, first.id).out
        )
        assert "outcome" not in explained(job, 1).out

    def test_outcomes_of_their_own_topic_and_as_json(self, job: Path, tmp_path: Path) -> None:
        first = commands(job)[0]
        with FileTopicWriter(tmp_path / "outcomes") as topic:
            topic.append([encode_outcome(outcome(first, "refused", REFUSED))])
        uri = f"file://{tmp_path / 'outcomes'}"
        assert (
            "refused (paused"
            in rebalancer("explain", first.id, "--from", job, "--outcomes", uri).out
        )
        found = rebalancer("explain", first.bundle, "--from", job, "--outcomes", uri, "--json").json
        assert [(one["command_id"], one["status"]) for one in found["outcomes"]] == [
            (first.id, "refused")
        ]
        missing = rebalancer("explain", first.id, "--from", job, "--outcomes", "file:///nowhere")
        assert (missing.code, "no such topic yet" in missing.err) == (1, True)


class TestReplay:
    """Executors feed outcomes back into the telemetry, so a recording has them too."""

    @pytest.fixture
    def again(self, job: Path, tmp_path: Path) -> Path:
        """The same log, with two outcomes of the first command and one of a command that nobody
        decides here.
        """
        first = commands(job)[0]
        told = [
            outcome(first, "dry-run"),
            outcome(first, "failed", "unanswered: the broker did not answer", 6),
        ]
        other = replace(told[0], command_id="of another job")
        lines = uneven(rounds=5)
        return recorded(
            tmp_path,
            [*lines[:6], *map(encode_outcome_telemetry, (*told, other)), *lines[6:]],
            "answered.jsonl",
        )

    def test_its_folder_holds_the_outcomes_of_its_commands_and_explain_shows_them(
        self, again: Path, tmp_path: Path
    ) -> None:
        done = rebalancer("replay", again, "--out", tmp_path / "out", "--json", *EAGER_WORDS).json
        first = commands(tmp_path / "out")[0]
        written = [
            decode_outcome(line)
            for line in Path(done["files"]["outcomes"]).read_bytes().splitlines()
        ]
        assert [(one.command_id, one.status) for one in written] == [
            (first.id, "dry-run"),
            (first.id, "failed"),
        ]
        assert f"{first.bundle}: failed (unanswered" in explained(tmp_path / "out", 1).out

    def test_without_outcomes_there_is_no_such_file_not_even_an_old_one(
        self, job: Path, again: Path, tmp_path: Path
    ) -> None:
        assert not (job / "outcomes.jsonl").exists()
        rebalancer("replay", again, "--out", tmp_path / "out", *EAGER_WORDS)
        assert (tmp_path / "out" / "outcomes.jsonl").exists()
        rebalancer("replay", tmp_path / "log.jsonl", "--out", tmp_path / "out", *EAGER_WORDS)
        assert not (tmp_path / "out" / "outcomes.jsonl").exists()

    def test_its_page_shows_them_beside_the_moves(self, again: Path, tmp_path: Path) -> None:
        rebalancer("replay", again, "--html", tmp_path / "page.html", *EAGER_WORDS)
        assert "transfer, failed" in (tmp_path / "page.html").read_text("utf-8")


class TestRounds:
    def test_without_an_argument_and_latest_are_the_newest_round(self, job: Path) -> None:
        assert explained(job) == explained(job, "latest") == explained(job, 5)
        assert explained(job, "--json").json["rounds"] == explained(job, 5, "--json").json["rounds"]

    def test_epochs_are_not_mixed(self, job: Path) -> None:
        a_second_epoch(job, rounds=3)
        assert next(
            line for line in explained(job, 2).out.splitlines() if line.startswith("round ")
        ).startswith("round 2 of cluster c, epoch 2,")
        assert explained(job, 2).out.endswith("epoch 1 also has it; --epoch N shows it\n")
        assert "round 2 of cluster c, epoch 1," in explained(job, 2, "--epoch", "1").out
        assert explained(job, "latest").out.startswith("round 3 of cluster c, epoch 2,")
        assert explained(job, 5).out.startswith("round 5 of cluster c, epoch 1,")

    def test_latest_shows_a_cluster_whose_newest_epoch_has_commands_but_no_rounds(
        self, job: Path
    ) -> None:
        rounds = [decode_round(line) for line in (job / "rounds.jsonl").read_bytes().splitlines()]
        with (job / "rounds.jsonl").open("ab") as file:
            file.write(encode_round(replace(rounds[2], cluster="other", commands=())) + b"\n")
        with (job / "commands.jsonl").open("ab") as file:
            file.write(encode_command(replace(commands(job)[0], id="f" * 32, epoch=2)) + b"\n")
        shown = [
            line for line in explained(job, "latest").out.splitlines() if line.startswith("round ")
        ]
        assert [line.partition(",")[0] for line in shown] == [
            "round 5 of cluster c",
            "round 3 of cluster other",
        ]
        assert [one["round"] for one in explained(job, "latest", "--json").json["rounds"]] == [5, 3]

    def test_brokers_and_bundles_are_those_of_the_newest_epoch_that_knows_them(
        self, job: Path
    ) -> None:
        a_second_epoch(job, rounds=3)
        told = explained(job, "hot:1").out
        assert [line.split()[1] for line in told.splitlines() if line.startswith("  round ")] == [
            "1",
            "2",
            "3",
        ]
        assert told.endswith("epoch 1 also has it; --epoch N shows it\n")
        moved = commands(job)[0].bundle
        assert "epoch 1" not in explained(job, moved, "--epoch", 2).out

    def test_a_number_is_a_round_of_any_epoch_before_it_is_the_beginning_of_an_id(
        self, job: Path
    ) -> None:
        rounds = [decode_round(line) for line in (job / "rounds.jsonl").read_bytes().splitlines()]
        rounds.append(replace(rounds[0], round=1234, commands=()))
        ids = [
            replace(one, id=f"1234{number}", epoch=2) for number, one in enumerate(commands(job))
        ]
        (job / "rounds.jsonl").write_bytes(
            b"".join(
                encode_round(one) + b"\n"
                for one in (*rounds, replace(rounds[0], round=1234, commands=()))
            )
        )
        with (job / "commands.jsonl").open("ab") as file:
            file.writelines(encode_command(one) + b"\n" for one in ids)
        assert explained(job, "1234").out.startswith("round 1234 of cluster c, epoch 1,")
        assert "1234 matches 3 commands" in explained(job, "1234", "--epoch", 2).err
        assert explained(job, "12340").out.startswith(
            "command 12340 of cluster c, round 1, epoch 2"
        )

    def test_the_newest_round_is_that_with_the_largest_number_wherever_it_is(
        self, job: Path
    ) -> None:
        newest = explained(job)
        lines = (job / "rounds.jsonl").read_bytes().splitlines(keepends=True)
        (job / "rounds.jsonl").write_bytes(b"".join(reversed(lines)))
        assert explained(job) == newest

    def test_an_epoch_that_is_not_there(self, job: Path) -> None:
        answer = explained(job, 1, "--epoch", 7)
        assert (answer.code, answer.err) == (
            1,
            "error: 1: no epoch 7; name one of 1 with --epoch.\n",
        )


class TestNames:
    def test_the_range_of_a_bundle(self, job: Path) -> None:
        name = commands(job)[0].bundle
        assert explained(job, name.rpartition("/")[2]) == explained(job, name)

    def test_a_range_in_several_namespaces_lists_them(self, job: Path) -> None:
        first, *others = commands(job)
        other = replace(first, id="f" * 32, bundle=first.bundle.replace("t/ns/", "t/other/"))
        (job / "commands.jsonl").write_bytes(
            b"".join(encode_command(one) + b"\n" for one in (first, other, *others))
        )
        answer = explained(job, first.bundle.rpartition("/")[2])
        assert answer.code == 1
        assert f"matches 2 bundles: {first.bundle}, {other.bundle}; name one of them." in answer.err

    @pytest.mark.parametrize("word", ["hot", "HOT", "HOT:1", "http://hot:1/", "hot:1"])
    def test_the_host_of_a_broker(self, job: Path, word: str) -> None:
        assert explained(job, word) == explained(job, "hot:1")

    def test_a_host_with_two_brokers_lists_them(self, tmp_path: Path) -> None:
        lines = [
            line
            for minute in range(3)
            for line in (
                load_report("host:1", 60 * minute, {bundle(1): 9.0 + minute}),
                load_report("host:2", 60 * minute + 1, {bundle(2): 9.0}),
                sweep(60 * minute + 2, "host:1", "host:2"),
            )
        ]
        rebalancer("replay", recorded(tmp_path, lines), "--out", tmp_path / "out")
        assert (
            "host matches 2 brokers: host:1, host:2; name one of them."
            in explained(tmp_path / "out", "host").err
        )

    def test_a_topic_means_its_bundle_and_a_partition_its_own(self, job: Path) -> None:
        moved = commands(job)[0].bundle
        for form in ("persistent://t/ns/{}", "t/ns/{}"):
            name = next(
                f"topic-{number}"
                for number in range(100_000)
                if inside(f"persistent://t/ns/topic-{number}", moved)
            )
            told = explained(job, form.format(name)).out
            assert told.startswith(f"persistent://t/ns/{name} has the hash 0x")
            assert (
                f"which is in {moved}; if it is partitioned, name a partition: "
                f"persistent://t/ns/{name}-partition-0" in told
            )
            assert explained(job, moved).out in told
        partitions = (f"persistent://t/ns/t-partition-{number}" for number in range(100_000))
        part = next(name for name in partitions if inside(name, moved))
        assert explained(job, part).out.splitlines()[0].endswith(f"which is in {moved}")

    def test_a_bundle_that_no_round_names_is_explained_by_its_broker(
        self, job: Path, tmp_path: Path
    ) -> None:
        unnamed = bundle(9)
        (job / "telemetry.jsonl").write_bytes((tmp_path / "log.jsonl").read_bytes())
        told = explained(job, unnamed).out
        assert told.startswith(
            f"bundle {unnamed}\n  no round mentions it; it was on idle:1 when that last "
            "reported\nbroker idle:1\n"
        )
        assert explained(job, unnamed.rpartition("/")[2]).out == told

    @pytest.mark.parametrize(
        "word",
        [
            "zzz",
            "77",
            "t/ns/0x00000000_0x00000001",
            "persistent://nobody/knows/this",
            "0x01_0x02",
            "latest:1",
        ],
    )
    def test_what_is_not_found_is_told_in_one_sentence(self, job: Path, word: str) -> None:
        answer = explained(job, word)
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.startswith(
            f"error: {word}: 5 rounds (1 to 5) and 3 commands of epoch 1 do not mention it"
        )
        assert (
            "name a round's number, latest, a command id, a bundle or its range, a broker "
            "(host or host:port) or a topic" in answer.err
        )
        assert answer.err.count("\n") == 1
        assert answer.err.count(". ") == 0

    def test_latest_where_rounds_are_lost_and_commands_are_not(self, job: Path) -> None:
        (job / "rounds.jsonl").write_bytes(b"")
        answer = explained(job)
        assert (answer.code, answer.err) == (
            1,
            "error: latest: no rounds of epoch 1, only 3 commands; name one of them.\n",
        )

    def test_a_number_of_thousands_of_digits_is_no_round(self, job: Path) -> None:
        answer = explained(job, "9" * 5_000)
        assert answer.code == 1
        assert "do not mention it" in answer.err

    def test_of_an_empty_log_too(self, tmp_path: Path) -> None:
        for kind in ("rounds", "commands"):
            (tmp_path / f"{kind}.jsonl").write_bytes(b"")
        for word in ((), ("latest",), ("7",)):
            assert "no rounds and no commands yet; start the job" in explained(tmp_path, *word).err


def a_second_epoch(job: Path, rounds: int) -> None:
    """The first rounds again, as a job with a new checkpoint publishes them."""
    with (job / "rounds.jsonl").open("ab") as file:
        old = [decode_round(line) for line in (job / "rounds.jsonl").read_bytes().splitlines()][
            :rounds
        ]
        file.writelines(
            encode_round(replace(one, epoch=2, commands=(), ts=one.ts + 3_600_000)) + b"\n"
            for one in old
        )


def inside(topic: str, name: str) -> bool:
    parsed = parse_bundle(name)
    return parsed is not None and topic_hash(topic) in parsed[1]
