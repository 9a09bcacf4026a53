"""The lines of a start: for the log, and in the checkpoint for whoever waits for the job."""

from __future__ import annotations

from pathlib import Path

from streaming.starting import StartLines, StartNews, read_start_lines, start_lines


def test_lines_of_a_start_are_read_once_each_and_gone_when_the_job_works(tmp_path: Path) -> None:
    logged: list[str] = []
    now = 10.0
    news = StartNews(tmp_path)
    lines = StartLines(tmp_path, logged.append, lambda: now)
    assert news.look() == []
    lines.say("Spark starts")
    lines.say("attempt 1")
    assert news.look() == ["Spark starts", "attempt 1"]
    assert news.look() == []
    lines.say("attempt 1 failed; attempt 2")
    assert news.look() == ["attempt 1 failed; attempt 2"]
    assert read_start_lines(tmp_path)[-1:] == ["attempt 1 failed; attempt 2"]
    now = 85.0
    lines.works()
    lines.works()
    assert (news.look(), read_start_lines(tmp_path)) == ([], [])
    assert logged == [
        "start: Spark starts",
        "start: attempt 1",
        "start: attempt 1 failed; attempt 2",
        "start: the job runs after 75 s",
    ]


def test_a_later_start_is_news_again(tmp_path: Path) -> None:
    news = StartNews(tmp_path)
    lines = StartLines(tmp_path, lambda _: None)
    lines.say("attempt 1")
    assert news.look() == ["attempt 1"]
    lines.works()
    assert news.look() == []
    lines.say("attempt 1")
    assert news.look() == ["attempt 1"]


def test_a_start_begins_without_the_lines_of_a_killed_job_and_leaves_none(tmp_path: Path) -> None:
    StartLines(tmp_path, lambda _: None).say("attempt 7")
    with start_lines(tmp_path, lambda _: None) as lines:
        assert read_start_lines(tmp_path) == []
        lines.say("attempt 1")
        assert read_start_lines(tmp_path) == ["attempt 1"]
    assert read_start_lines(tmp_path) == []


def test_a_folder_that_is_not_there_costs_no_line_of_the_log(tmp_path: Path) -> None:
    logged: list[str] = []
    StartLines(tmp_path / "away", logged.append).say("attempt 1")
    assert (logged, read_start_lines(tmp_path / "away")) == (["start: attempt 1"], [])
