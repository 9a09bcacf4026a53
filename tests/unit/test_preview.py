"""What a person sees before a bundle moves: what the next round would do, by the topics alone."""

from dataclasses import replace

import msgspec
import pytest

from pulsar_rebalancer.decisions.intents import IntentError
from pulsar_rebalancer.decisions.preview import PresentCluster, Proposal, read_present
from pulsar_rebalancer.settings.merge_sources import load
from sinks.collector.broker_poll import Report
from sinks.collector.collector import encode_note
from sinks.wire.contracts.telemetry import BundleTopicsReport
from sinks.wire.operator_records import encode_intent
from sinks.wire.record_decoding import decode_command
from sinks.wire.record_encoding import encode_command, encode_outcome
from strategies.bundles import topic_hash
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.move_cost import MoveCost
from tests.control_topic import Control, command, outcome
from tests.telemetry_lines import T0, bundle, line
from tests.unit.folding_job import SETTINGS, A, B, C, FoldingJob
from tests.world.intents import id_of
from tests.world.splits import children_of, topic_of
from tools.processes.set_words import set_words

BUNDLE = bundle(0)


@pytest.fixture
def job(control: Control) -> FoldingJob:
    """Three brokers with two bundles each, after four rounds."""
    return FoldingJob(control, (A, B, C)).after(4)


def present(job: FoldingJob, *more: str, late_ms: int = 0) -> PresentCluster:
    """The cluster as a person reads it, whose clock is that of the job."""
    words = [word for word in set_words(job.control.settings()) if word != "--set"]
    settings = load(flags=[*words, *SETTINGS, *more])
    newest, now_ms = job.rounds()[-1], job.now_ms + late_ms
    return read_present(settings.connections, settings.engine, newest, now_ms)


def move(job: FoldingJob, to: str | None = B, name: str = BUNDLE, number: int = 1) -> Intent:
    return Intent("c", job.now_ms, id_of(number), "move", "ann", "new disks", to, bundle=name)


def shown(job: FoldingJob, *more: str, to: str | None = B) -> Proposal:
    (one,) = present(job, *more).preview([move(job, to)])
    return one


def test_the_job_does_what_the_preview_shows(job: FoldingJob) -> None:
    before = job.control.read("telemetry")
    intents = [move(job), move(job, None, bundle(3), 2)]

    previewed = [one.command for one in present(job).preview(intents)]

    assert job.control.read("telemetry") == before
    job.control.write("telemetry", [encode_intent(one) for one in intents])
    job.turn()
    job.turn()
    decided = [decode_command(value) for value in job.control.read("commands")]
    assert {(one.bundle, one.destination, one.expected) for one in previewed if one} == {
        (one.bundle, one.destination, one.expected) for one in decided
    }
    assert len(decided) == 2


def test_it_shows_both_brokers_and_what_moves(job: FoldingJob) -> None:
    """Half of the traffic leaves, with half of the usage above that of a broker without any."""
    one = shown(job)

    assert one.command
    assert one.bundle
    expected = one.command.expected
    assert (one.bundle.broker, one.command.destination) == (A, B)
    assert (expected.source_before, expected.source_after) == pytest.approx((0.2, 0.14))
    assert (expected.destination_before, expected.destination_after) == pytest.approx((0.2, 0.26))
    assert (one.bundle.topics, one.bundle.throughput) == (3, 200 * 1024)
    assert one.bundle.pause_ms == 1_000


def test_the_pause_is_that_of_measured_moves(job: FoldingJob) -> None:
    done = outcome(command(bundle(5), C, A), "applied")
    costs = MoveCost(unowned_ms=40, first_message_ms=250, topics=3)
    job.control.write("outcomes", [encode_outcome(replace(done, cost=costs))])

    one = shown(job)

    assert one.bundle
    assert one.bundle.pause_ms == 250


def test_policies_brokers_and_the_job_own_intents_object(job: FoldingJob) -> None:
    parameters = {"min_limit": "1", "usage_threshold": "100"}
    failover = {"policy_type": "min_available", "parameters": parameters}
    names = {"namespaces": ["t/.*"], "primary": ["[ac].*"], "secondary": []}
    report = {"isolation": {"p": {**names, "auto_failover_policy": failover}}}
    job.control.write("telemetry", [line("policies", (job.now_ms - T0) / 1000, report=report)])

    proposals = [shown(job), shown(job, to="d:1"), shown(job, to=A)]

    codes = [one.status.text.rpartition("[")[2] for one in proposals if one.command is None]
    assert codes[:2] == ["isolation-outside]", "unknown-broker]"]
    assert [one.status.state for one in proposals] == ["blocked", "refused", "done"]
    assert proposals[0].status.advice


def test_an_intent_without_the_key_of_the_job_is_not_among_them(job: FoldingJob) -> None:
    job.demand_signatures()
    job.control.write("telemetry", [encode_intent(move(job, C))])
    before = shown(job)
    job.turn()

    assert before.command
    assert (shown(job).command is None, job.rounds()[-1].intents) == (False, ())


def test_commands_of_the_job_use_up_limits_and_are_under_way(job: FoldingJob) -> None:
    ours = command(BUNDLE, A, C, issued_at_ms=job.now_ms, expires_at_ms=job.now_ms + 60_000)
    job.control.write("commands", [encode_command(ours)])
    cluster = present(job, "drains.bundles_at_a_time=1")
    first, second = cluster.preview([move(job), move(job, C, bundle(3), 2)])
    assert "already-leaving" in first.status.text
    assert second.command, "the job's own move takes no place of moves by hand"

    (other,) = present(job, "limits.moves_per_hour=1").preview([move(job, C, bundle(3))])

    assert "limits.moves_per_hour = 1 [budget]" in other.status.text
    job.control.write("outcomes", [encode_outcome(outcome(ours, "dry-run"))])
    assert shown(job, "limits.moves_per_hour=1").command is not None


def test_a_bundle_that_has_moved_back_is_not_under_way(job: FoldingJob) -> None:
    times = {"issued_at_ms": job.now_ms, "expires_at_ms": job.now_ms + 60_000}
    there, back = command(BUNDLE, A, C, **times), command(BUNDLE, C, A, **times)
    job.control.write("commands", [encode_command(there), encode_command(back)])
    job.control.write(
        "outcomes", [encode_outcome(outcome(one, "applied")) for one in (there, back)]
    )

    assert shown(job).command


@pytest.mark.parametrize("turns", [0, 4])
def test_telemetry_that_shows_nothing_is_no_preview(control: Control, turns: int) -> None:
    job = FoldingJob(control, (A, B, C)).after(4)
    if turns:
        with pytest.raises(IntentError, match="is 10 min old, so the cluster may look different"):
            present(job, late_ms=600_000)
        return
    job.control.folder.joinpath("telemetry").rename(job.control.folder / "elsewhere")
    with pytest.raises(IntentError, match=r"closes no round.*rebalancer doctor"):
        present(job)


def test_a_split_shows_what_its_children_carry_and_what_objects_to_them(job: FoldingJob) -> None:
    topics = BundleTopicsReport(BUNDLE, [(topic_of(0x100000), 50.0, 3e4)], 2, 50.0, 1e4)
    report = Report(A, job.now_ms, msgspec.json.encode(topics))
    job.control.write("telemetry", [encode_note("topics-of-bundle", "c", report)])
    split = replace(move(job), action="split", moves_children=True)

    (whole,) = present(job).preview([split])
    (cut,) = present(job).preview([replace(split, positions=(0x400000, 0x800000))])
    (tight,) = present(job, "placement.overloaded_percent=25").preview([split])

    assert (whole.shares, cut.shares) == (
        dict(zip(children_of(BUNDLE, ()), (0.875, 0.125), strict=True)),
        dict(zip(children_of(BUNDLE, (0x400000, 0x800000)), (0.8125, 0.0625, 0.125), strict=True)),
    )
    assert whole.children
    assert whole.children.command
    assert (whole.children.command.action, whole.children.command.destination) == ("transfer", B)
    assert tight.command
    assert tight.children
    assert "[would-overload]" in tight.children.status.text


def test_a_topic_is_in_the_bundle_of_its_hash(job: FoldingJob) -> None:
    cluster = present(job)
    topic = next(
        name
        for name in (f"persistent://t/ns/orders-{number}" for number in range(10_000))
        if topic_hash(name) >> 24 == 4
    )
    for name in (topic, topic.partition("//")[2], bundle(4)):
        assert cluster.bundles_named(name) == [bundle(4)]
    assert cluster.bundles_named("t/ns") == [bundle(number) for number in range(6)]
    job.owners["w/ns/0x00000000_0xffffffff"] = A  # whatever the hash of a name is
    cluster = present(job.after(2))
    assert cluster.bundle_named("non-persistent://w/ns/x") == "w/ns/0x00000000_0xffffffff"
    scheme = ("persistant://w/ns/x", "persistent://w/ns", "persistent://t/other/x")
    ranges = ("w/ns/0x20000000-0x30000000", "w/ns/0X0_0xffffffff", "w/ns/0x00000000", bundle(9))
    for name in (*scheme, *ranges, "w/ns/", "w/ns/ ", "w/ns/x ", "w//x", "t/other", "x"):
        with pytest.raises(IntentError, match=r"bundle-range"):
            cluster.bundles_named(name)
