"""A checkpoint folder goes on only under the settings and versions it was made with, and for one
job at a time.
"""

import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strategies.dispatch_limits.throttle_advice import AdviceSettings
from strategies.errors import SettingsError, SinkError, StateVersionError
from strategies.fold.engine import EngineSettings
from strategies.settings import LimitSettings, RoundSettings
from strategies.shedding.registry import SHEDDERS
from streaming.checkpoint.guard import LOCKS, CheckpointInUse, checkpoint_folder, guarded
from streaming.checkpoint.remembered_and_changed_settings import GUARD, Guard, guard_of, read_guard
from streaming.settings import JobSettings
from tools.waiting import eventually

THRESHOLD = EngineSettings(strategy="threshold")


def begin(folder: Path, guard: Guard | None = None) -> None:
    with guarded(folder, guard or a_guard()):
        pass


def complaints(folder: Path, guard: Guard) -> Sequence[str]:
    with pytest.raises(SettingsError) as refused:
        begin(folder, guard)
    return refused.value.complaints


def a_guard(engine: EngineSettings = THRESHOLD, **job: int) -> Guard:
    return guard_of(JobSettings(**job), engine)  # type: ignore[arg-type]


def under(python: str) -> Guard:
    guard = a_guard()
    return replace(guard, settings={**guard.settings, "runtime.python": python})


def without_python() -> Guard:
    """The guard of a version that did not name what calculates."""
    guard = a_guard()
    older = {path: value for path, value in guard.settings.items() if "runtime." not in path}
    return replace(guard, settings=older)


WRITTEN_OUT = EngineSettings(strategy="threshold", shedding=SHEDDERS["threshold"].settings())


@pytest.mark.parametrize(
    ("written", "now"),
    [
        (a_guard(), a_guard()),
        (a_guard(), a_guard(WRITTEN_OUT)),
        (a_guard(), a_guard(max_records_per_batch=7, trigger_ms=1000, read_tasks=1)),
        (a_guard(), replace(a_guard(), product="9.9.9")),
        (without_python(), a_guard()),
    ],
    ids=["equal", "defaults written out", "no decision", "newer product", "no Python yet"],
)
def test_settings_that_decide_the_same_go_on(written: Guard, now: Guard, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    begin(folder, written)
    processed(folder, begun=12, committed=11)
    with guarded(folder, now) as held:
        assert (held.change, held.epoch) == (None, 1)


def test_the_guard_can_be_read_by_people_and_says_what_was_set(tmp_path: Path) -> None:
    begin(tmp_path)
    settings = json.loads((tmp_path / GUARD).read_text())["settings"]
    expected = {
        "shedding.strategy": "threshold",
        "shedding.threshold.threshold_percent": 10,
        "round.interval_ms": 60_000,
        "job.shuffle_partitions": 1,
        "runtime.python": ".".join(platform.python_version_tuple()[:2]),
    }
    assert settings.items() >= expected.items()
    assert np.__version__.startswith(f"{settings['runtime.numpy']}.")


def test_other_settings_are_refused_and_every_difference_is_named(tmp_path: Path) -> None:
    begin(tmp_path)
    other = replace(THRESHOLD, round=RoundSettings(interval_ms=30_000), mode="parity")
    *differences, repartition, advice = complaints(tmp_path, a_guard(other, shuffle_partitions=3))
    assert repartition.endswith("rebalancer state repartition --partitions 3")
    assert differences == [
        'shedding.mode: "parity", but the checkpoint was written with "fixed"',
        "round.interval_ms: 30000, but the checkpoint was written with 60000",
        "job.shuffle_partitions: 3, but the checkpoint was written with 1",
    ]
    steps = "was written with other settings: restore them, or name a new folder"
    assert advice.startswith(f"job.checkpoint: {tmp_path} {steps}")


def test_of_another_strategy_only_the_choice_is_named(tmp_path: Path) -> None:
    """Settings that name no strategy mean another one since the default has changed."""
    avg = EngineSettings(strategy="avg")
    begin(tmp_path, a_guard(avg))
    change, _ = complaints(tmp_path, a_guard(EngineSettings()))
    assert change == 'shedding.strategy: "steady", but the checkpoint was written with "avg"'
    begin(tmp_path, a_guard(avg))


CAREFUL = replace(
    THRESHOLD, limits=LimitSettings(moves_per_round=3), throttling=AdviceSettings(advise=False)
)


def processed(folder: Path, begun: int, committed: int) -> None:
    """Spark's own logs of a checkpoint."""
    for log, newest in (("offsets", begun), ("commits", committed)):
        (folder / log).mkdir(exist_ok=True)
        for batch in range(newest + 1):
            (folder / log / str(batch)).touch()


NEVER_FORGETS = replace(THRESHOLD, round=RoundSettings(forget_cluster_after_days=0))
#: Settings that change no state: the guards before and after, and what is said of each.
CHANGES = [
    (
        a_guard(),
        a_guard(CAREFUL),
        [
            "limits.moves_per_round: 3 from here on; it was 0",
            "throttling.advise: false from here on; it was true",
        ],
    ),
    (
        a_guard(),
        a_guard(NEVER_FORGETS),
        ["round.forget_cluster_after_days: 0 from here on; it was 7"],
    ),
    (under("3.12"), under("3.14"), ['runtime.python: "3.14" from here on; it was "3.12"']),
]


@pytest.mark.parametrize(("written", "now", "said"), CHANGES)
def test_what_changes_no_state_can_change(
    written: Guard, now: Guard, said: Sequence[str], tmp_path: Path
) -> None:
    begin(tmp_path, written)
    processed(tmp_path, begun=11, committed=11)
    lines = [f"{line} in epoch 1, up to micro-batch 11" for line in said]
    with guarded(tmp_path, now) as held:
        assert (held.change and list(held.change.lines()), held.epoch) == (lines, 2)
    with guarded(tmp_path, now) as held:
        assert (held.change, held.epoch) == (None, 2)


@pytest.mark.parametrize(("written", "now", "said"), CHANGES)
def test_nothing_changes_while_a_micro_batch_must_be_repeated(
    written: Guard, now: Guard, said: Sequence[str], tmp_path: Path
) -> None:
    """What was published of it would otherwise be published with another content under the same
    id.
    """
    begin(tmp_path, written)
    processed(tmp_path, begun=12, committed=11)
    first, *_, last = complaints(tmp_path, now)
    assert first.startswith(f"{said[0].partition(' from')[0]}, but")
    assert "run once with the old settings and --drain, then start with the new ones" in last
    begin(tmp_path, written)


def test_a_changed_setting_takes_the_epoch_after_a_job_that_came_in_between(tmp_path: Path) -> None:
    begin(tmp_path, a_guard(CAREFUL))
    processed(tmp_path, begun=14, committed=14)
    with guarded(tmp_path, a_guard(), lambda: 9) as held:
        assert held.epoch == 9


def test_beside_a_setting_that_cannot_change_none_can(tmp_path: Path) -> None:
    begin(tmp_path)
    before = read_guard(tmp_path)
    with pytest.raises(SettingsError, match=r"round\.interval_ms"):
        begin(tmp_path, a_guard(replace(CAREFUL, round=RoundSettings(interval_ms=30_000))))
    assert read_guard(tmp_path) == before


NOW = a_guard().state


OLDER = ({**NOW, name: NOW[name] - 1} for name in ("cluster", "rows"))


@pytest.mark.parametrize("state", [{"cluster": 99, "rows": 1}, *OLDER])
def test_state_of_another_format_is_refused(tmp_path: Path, state: Mapping[str, int]) -> None:
    begin(tmp_path, replace(a_guard(), product="9.9.9", state=state))
    format_ = f"state format cluster {state['cluster']}, rows {state['rows']}"
    step = "go back to the version that wrote it, or name a new folder"
    with pytest.raises(StateVersionError, match=rf"version 9\.9\.9 in {format_};.*{step}"):
        begin(tmp_path)


BACKUP = "restore it from a backup, or name a new folder"
OTHER = '{"format":%d,"product":"x","state":{},"settings":{},"digest":""}'


@pytest.mark.parametrize(
    ("damage", "step"),
    [
        *((text, BACKUP) for text in ("", "{", "[]", '{"format": 1}', "null", OTHER % 1)),
        (OTHER % 2, "use the version that wrote it"),
    ],
)
def test_a_damaged_guard_is_refused(tmp_path: Path, damage: str, step: str) -> None:
    begin(tmp_path)
    (tmp_path / GUARD).write_text(damage)
    with pytest.raises(StateVersionError, match=step):
        begin(tmp_path)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(StateVersionError, match=r"contains offsets but no rebalancer\.json"):
        begin(tmp_path)
    with pytest.raises(StateVersionError, match=r"is not a checkpoint of this program"):
        read_guard(tmp_path)
    assert not (tmp_path / GUARD).exists()


def test_two_jobs_cannot_share_a_checkpoint(tmp_path: Path) -> None:
    in_use = pytest.raises(CheckpointInUse, match="another job uses the checkpoint")
    with guarded(tmp_path, a_guard()), in_use, guarded(tmp_path, a_guard(), timeout_s=0.2):
        pass
    begin(tmp_path)


def open_files() -> list[str]:
    return [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]


def test_a_start_that_waited_while_the_folder_was_replaced_locks_the_new_one(
    tmp_path: Path,
) -> None:
    """As `rebalancer state repartition` replaces it."""
    folder, lock = tmp_path / "ck", str(tmp_path / "ck" / LOCKS[0])

    def second() -> None:
        refused = pytest.raises(CheckpointInUse)
        with guarded(folder, a_guard()), refused, guarded(folder, a_guard(), timeout_s=0):
            pass

    with ThreadPoolExecutor() as threads:
        with guarded(folder, a_guard()):
            waits = threads.submit(second)
            eventually(lambda: open_files().count(lock) > 1)
            folder.rename(tmp_path / "aside")
            shutil.copytree(tmp_path / "aside", folder)
        waits.result()


def test_a_checkpoint_is_a_folder_of_this_machine() -> None:
    here, there = JobSettings(checkpoint="file:///some%20where/ck"), "hdfs://n/ck"
    assert checkpoint_folder(here) == Path("/some where/ck")
    with pytest.raises(SettingsError, match=f"'{there}' is not a folder on this machine"):
        checkpoint_folder(JobSettings(checkpoint=there))


def test_a_folder_that_cannot_be_made_is_a_complaint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"job\.checkpoint: .*file/ck cannot be written"):
        begin(tmp_path / "file" / "ck")


def epoch(folder: Path, lowest: int = 1, following: int = 1) -> int:
    """The epoch a job gets, where the settings want at least `lowest` and the topics leave
    `following` as the next.
    """
    guard = a_guard(replace(THRESHOLD, round=RoundSettings(epoch=lowest)))
    with guarded(folder, guard, lambda: following) as held:
        return held.epoch


def test_a_new_checkpoint_takes_the_next_epoch_or_a_higher_one_and_keeps_it(tmp_path: Path) -> None:
    assert epoch(tmp_path / "first") == 1
    assert epoch(tmp_path / "wanted", lowest=7, following=4) == 7
    assert epoch(tmp_path / "next", following=4) == 4
    assert epoch(tmp_path / "next", following=9) == 4
    assert epoch(tmp_path / "next", lowest=3, following=9) == 4
    assert read_guard(tmp_path / "next").epoch == 4
    with pytest.raises(SettingsError, match=r"round\.epoch: 5, but .* was written with 4"):
        epoch(tmp_path / "next", lowest=5)


def test_a_checkpoint_whose_epoch_cannot_be_read_off_the_topics_does_not_begin(
    tmp_path: Path,
) -> None:
    def out_of_reach() -> int:
        raise SinkError("kafka does not answer")

    with pytest.raises(SinkError), guarded(tmp_path, a_guard(), out_of_reach):
        pass
    assert epoch(tmp_path, following=2) == 2
