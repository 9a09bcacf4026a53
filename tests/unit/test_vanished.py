"""When rows of vanished clusters leave a shard: never for one wrong clock."""

from collections.abc import Iterable
from dataclasses import replace

from strategies.cluster.cluster_state import BrokerState, Clock, ClusterState, note_name
from strategies.cluster.model import Figures
from strategies.fold.time_jumps_and_forgetting import DAY_MS, remains
from streaming.state.forget_clusters import ForgetPolicy, Watch, watched
from streaming.state.store import ShardStore, StoreCache
from tests.spark.state_variables import Spark

HOUR = 3_600_000
PATIENCE = ForgetPolicy(after_ms=7 * DAY_MS)
STEP = 300_000


def lines(
    times: Iterable[tuple[int, int]], forget_policy: ForgetPolicy = PATIENCE, watch: Watch = Watch()
) -> list[int]:
    """The lines at which clusters are dropped, by newest record and machine of micro-batches."""
    found = []
    for newest, now in times:
        watch, line = watched(watch, newest, now, forget_policy)
        found += [] if line is None else [line]
    return found


def test_after_a_day_of_running_the_line_lies_the_days_and_the_margin_back() -> None:
    start = 100 * DAY_MS
    steady = [(start + at, start + at) for at in range(0, 3 * DAY_MS, STEP)]
    assert lines(steady) == [start - 8 * DAY_MS, start - 7 * DAY_MS]


def test_a_stopped_job_reads_what_waits_before_it_drops_anything() -> None:
    """Ten days after the stop, the newest records come first: those of other clusters wait."""
    stop, start = 100 * DAY_MS, 110 * DAY_MS
    before = [(stop - 2 * HOUR + at, stop - 2 * HOUR + at) for at in range(0, 2 * HOUR, STEP)]
    after = [(start, start + at) for at in range(0, 20 * HOUR, STEP)]
    assert lines([*before, *after]) == []


def test_neither_a_cluster_whose_clock_runs_ahead_nor_a_machine_that_does_moves_the_line() -> None:
    start, ahead = 100 * DAY_MS, 30 * DAY_MS
    for newest, now in ((ahead, 0), (0, ahead)):
        wrong = [(start + newest + at, start + now + at) for at in range(0, 2 * DAY_MS, STEP)]
        assert lines(wrong) == [start - 8 * DAY_MS]


def test_a_machine_whose_clock_goes_back_waits_longer() -> None:
    start = 100 * DAY_MS
    back = [(start + at, start - at) for at in range(0, 5 * DAY_MS, STEP)]
    assert lines(back) == []


def test_with_the_setting_off_nothing_is_dropped() -> None:
    never = replace(PATIENCE, after_ms=0)
    assert lines([(at, at) for at in range(0, 30 * DAY_MS, HOUR)], never) == []


def broker(name: str) -> BrokerState:
    return BrokerState(name, 0, 1, 1, 1, 1, 1, -1, "d", "d", Figures())


AT_ONCE = ForgetPolicy(after_ms=DAY_MS, margin_ms=0, running_ms=0)


def round_of(
    spark: Spark, names: Iterable[str], day: int, worker: StoreCache, behind: str = ""
) -> tuple[Spark, list[str]]:
    """A micro-batch with records of some clusters, and the clusters whose rows leave in it.
    `behind`: a cluster whose time is nine days behind.
    """
    attempt = spark.attempt()
    shard = worker.open(0, attempt.rows())
    for name in names:
        store = shard.cluster(name)
        for one in ("b1", "b2"):
            store.put_broker(broker(one))
            store.put_table(one, f"{name}{day}".encode())
            store.put_table(note_name(one), b"owned")
        store.put_table(note_name("silent"), b"owned")
        number, clock = store.get_cluster().round + 1, Clock((day - 9 * (name == behind)) * DAY_MS)
        store.put_cluster(ClusterState(clock=clock, early=None, round=number, round_at_ms=7))
    gone = shard.drop_vanished(day * DAY_MS, AT_ONCE)
    shard.flush(attempt.rows())
    worker.keep(0, shard)
    return attempt, gone


def test_rows_of_a_silent_cluster_leave_and_its_round_number_stays() -> None:
    worker = StoreCache(2**20)
    names = [f"c{number}" for number in range(40)]
    spark, told = Spark(), []
    for name in names:
        spark, gone = round_of(spark, [name], 10, worker)
        told += gone
    full = sum(map(len, spark.values("brokers"))) + sum(map(len, spark.values("tables")))
    for day in (11, 12, 13, 14):
        spark, gone = round_of(spark, ["c0"], day, worker)
        told += gone
    assert told == names[1:]
    left = sum(map(len, spark.values("brokers"))) + sum(map(len, spark.values("tables")))
    assert left < full / 20
    for reader in (worker, StoreCache(0)):
        shard: ShardStore = reader.open(0, spark.attempt().rows())
        kept = shard.cluster("c7")
        assert (list(kept.brokers()), kept.tables()) == ([], {})
        assert kept.get_cluster() == remains(kept.get_cluster())
        assert (kept.get_cluster().round, kept.get_cluster().clock) == (1, Clock(10 * DAY_MS))
        assert len(list(shard.cluster("c0").brokers())) == 2
        reader.keep(0, shard)


def test_a_cluster_that_speaks_between_the_two_steps_stays() -> None:
    worker = StoreCache(2**20)
    spark, _ = round_of(Spark(), ["a", "b"], 10, worker)
    spark, first = round_of(spark, ["a"], 12, worker)
    spark, second = round_of(spark, ["a", "b"], 12, worker)
    _, third = round_of(spark, ["a"], 12, worker)
    assert (first, second, third) == ([], [], [])


def test_a_cluster_whose_time_is_behind_keeps_no_vanished_one() -> None:
    worker = StoreCache(2**20)
    spark, _ = round_of(Spark(), ["a", "b", "late"], 10, worker, "late")
    spark, first = round_of(spark, ["a", "late"], 12, worker, "late")
    _, second = round_of(spark, ["a", "late"], 12, worker, "late")
    assert (first, second) == ([], ["b"])
