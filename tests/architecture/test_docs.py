"""What the pages name exists: links, files, tests; and the index of the decision records lists each
record once, with its status.
"""

import re
from pathlib import Path

import pytest

from tests.architecture.command_line import ROOT
from tests.architecture.docs import (
    files_of,
    index,
    is_status,
    missing_links,
    missing_paths,
    missing_tests,
    pages,
    records,
    words_of_docs,
)

DECISIONS = ROOT / "docs" / "decisions"
FILES = files_of(ROOT)
PAGES = pages(ROOT)


def test_every_link_leads_somewhere() -> None:
    assert [text for page in PAGES for text in missing_links(ROOT, page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_and_every_test_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")

    assert missing_paths(text, FILES) == []
    assert list(missing_tests(text, ROOT, FILES)) == []


def test_every_record_is_in_the_index_once_with_its_status() -> None:
    listed = index((DECISIONS / "README.md").read_text("utf-8"))

    assert sorted(listed) == [(one.name, one.status) for one in records(DECISIONS)]


def test_records_and_pages_stay_within_their_limits() -> None:
    assert len(records(DECISIONS)) <= 100
    assert words_of_docs(ROOT) <= 40_000


def test_every_record_has_a_date() -> None:
    assert [one.name for one in records(DECISIONS) if not one.date] == []


def test_every_record_has_a_number_of_its_own_and_a_status_whose_references_exist() -> None:
    found = records(DECISIONS)
    numbers = [one.number for one in found]

    assert len(set(numbers)) == len(numbers)
    assert [one.name for one in found if one.number != one.titled] == []
    assert [one.name for one in found if not is_status(one.status)] == []
    assert [
        one.name
        for one in found
        if not set(re.findall(r"\d{4}", one.status)) <= set(numbers) - {one.number}
    ] == []


@pytest.mark.heavy
def test_pages_that_the_code_names_exist() -> None:
    naming = [
        file
        for file in FILES
        if file.endswith((".py", ".toml", ".yaml", ".json", ".Dockerfile", "Makefile"))
    ]
    named = {
        page
        for file in naming
        for page in re.findall(r"\bdocs/[A-Z_]+\.md\b", (ROOT / file).read_text("utf-8"))
    }

    assert sorted(page for page in named if not (ROOT / page).is_file()) == []


def test_records_that_the_code_cites_exist() -> None:
    numbers = {one.number for one in records(DECISIONS)}
    cited = {
        (str(file.relative_to(ROOT)), number)
        for folder in (
            "strategies",
            "sinks",
            "streaming",
            "pulsar_rebalancer",
            "tests",
            "tools",
            "benchmarks",
        )
        for file in (ROOT / folder).rglob("*.py")
        for number in re.findall(
            r"(?:decision (?:record )?|docs/decisions/|\((?=0\d{3}\)))(0\d{3})(?=\D)",
            file.read_text("utf-8"),
        )
    }

    assert [one for one in sorted(cited) if one[1] not in numbers] == []
