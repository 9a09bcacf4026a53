"""What the pages name exists: links, files, tests; and the index of the decision records lists each
record once, with its status.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.architecture.command_line import ROOT
from tests.architecture.layers import PACKAGES

DECISIONS = ROOT / "docs" / "decisions"
#: Folders whose files the pages name.
FOLDERS = (
    *PACKAGES,
    "benchmarks",
    "deploy",
    "docker",
    "docs",
    "examples",
    "requirements",
    "scripts",
    "tests",
    "tools",
)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_MODULE = re.compile(r"python -m ([\w.]+)")
_TEST = re.compile(r"`([\w/]*\.py|…)?((?:::[\w…]+)+)`")
_STATUS = re.compile(
    r"accepted|settled in part|(?:amended|superseded) by \d{4}(?:(?:, \d{4})* and \d{4})?"
)


def pages() -> list[Path]:
    """All pages for people: those of the root, of docs/, and those beside the code."""
    folders = ("docs", ".github", "benchmarks", "tests/conformance", "tools", *PACKAGES)
    return [
        *sorted(ROOT.glob("*.md")),
        *(page for folder in folders for page in sorted((ROOT / folder).rglob("*.md"))),
    ]


def files() -> frozenset[str]:
    """Every file and folder that a page may name."""
    found = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if "__pycache__" not in path.parts
    ]
    return frozenset(
        str(path.relative_to(ROOT))
        for path in [*found, *(ROOT / name for name in FOLDERS), *ROOT.glob("*.*")]
    )


def missing_links(page: Path) -> Iterator[str]:
    """Links to files and headings that are not there."""
    for target in _LINK.findall(page.read_text("utf-8")):
        if "://" in target:
            continue
        place, _, anchor = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)}: no file {target}"
        elif anchor and anchor not in anchors(file.read_text("utf-8")):
            yield f"{page.relative_to(ROOT)}: no heading {target}"


def anchors(text: str) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower())
        .strip()
        .replace(" ", "-")
        for heading in headings
    }


def missing_paths(text: str) -> list[str]:
    """Paths and modules of the repository that `text` names and that are not there."""
    named = [
        word
        for code in _CODE.findall(_FENCE.sub("", text))
        for word in re.split(r"[\s,;()]+", code.split("::")[0])
    ]
    modules = [name for name in _MODULE.findall(text) if name.split(".")[0] in FOLDERS]
    return [word for word in named if is_path(word) and not is_there(word.rstrip("/"))] + [
        name
        for name in modules
        if not {name.replace(".", "/"), name.replace(".", "/") + ".py"} & FILES
    ]


def is_path(word: str) -> bool:
    """Whether a word of code names a file of the repository: below one of its folders, or any
    Python file.
    """
    return (word.split("/", maxsplit=1)[0] in FOLDERS and "/" in word) or bool(
        re.fullmatch(r"[\w/]+\.py", word)
    )


def is_there(word: str) -> bool:
    """Python files may be named by the last parts of their path."""
    if "*" in word:
        return any(fnmatch(file, word) for file in FILES)
    return word in FILES or (
        word.endswith(".py") and any(file.endswith("/" + word) for file in FILES)
    )


def missing_tests(text: str) -> Iterator[str]:
    """Tests named `file.py::name`; `…` ends a name that is cut off, and a reference without a file
    belongs to the one before.
    """
    file = ""
    for named, path in _TEST.findall(text):
        file = named if named.endswith(".py") else file
        sources = [
            (ROOT / one).read_text("utf-8")
            for one in FILES
            if one.startswith("tests/") and f"/{one}".endswith(f"/{file}")
        ]
        for name in path.split("::")[1:]:
            pattern = rf"(?:def|class) {re.escape(name.rstrip('…'))}" + (
                "" if name.endswith("…") else r"\b"
            )
            if not any(re.search(pattern, source) for source in sources):
                yield f"{file}::{name}"


def records() -> dict[str, str]:
    """File name of each decision record → its status, without links and in lower case; it is empty
    unless the file begins with its number, a title and a date.
    """
    found = {}
    for file in sorted(DECISIONS.glob("[!R]*.md")):
        head = rf"# {file.name[:4]} · .*\n\n\*\*\d{{4}}-\d\d-\d\d\*\* · (.+)\n"
        begins = re.match(head, file.read_text("utf-8"))
        found[file.name] = plain(begins[1]) if begins else ""
    return found


def index(text: str) -> list[tuple[str, str]]:
    """File name and status of every row of the index."""
    rows = re.findall(r"^\| \[\d{4}\]\(([^)]+)\) \| .+ \| (.+) \|$", text, re.MULTILINE)
    return [(name, plain(status)) for name, status in rows]


def plain(status: str) -> str:
    """A status in one line, without its links and its full stop."""
    return (
        re.sub(r"\[(\d{4})\]\([^)]*\)", r"\1", " ".join(status.split())).removesuffix(".").lower()
    )


FILES = files()
PAGES = pages()
RECORDS = records()
NUMBERS = {name[:4] for name in RECORDS}


def test_every_link_leads_somewhere() -> None:
    assert [text for page in PAGES for text in missing_links(page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_and_every_test_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")

    assert missing_paths(text) == []
    assert list(missing_tests(text)) == []


def test_every_record_is_in_the_index_once_with_its_status() -> None:
    listed = index((DECISIONS / "README.md").read_text("utf-8"))

    assert sorted(listed) == list(RECORDS.items())


def test_records_and_pages_stay_within_their_limits() -> None:
    documents = [page for page in (ROOT / "docs").rglob("*.md") if page.parent != DECISIONS]
    assert len(RECORDS) <= 100
    assert sum(len(page.read_text("utf-8").split()) for page in documents) <= 40_000


def test_every_record_has_a_date_a_number_of_its_own_and_a_status_whose_references_exist() -> None:
    assert [name for name, status in RECORDS.items() if not _STATUS.fullmatch(status)] == []
    assert len(NUMBERS) == len(RECORDS)
    assert [
        name
        for name, status in RECORDS.items()
        if not {*re.findall(r"\d{4}", status)} <= NUMBERS - {name[:4]}
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
    cited = {
        (str(file.relative_to(ROOT)), number)
        for folder in (*PACKAGES, "tests", "tools", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        for number in re.findall(
            r"(?:decision (?:record )?|docs/decisions/|\((?=0\d{3}\)))(0\d{3})(?=\D)",
            file.read_text("utf-8"),
        )
    }

    assert [one for one in sorted(cited) if one[1] not in NUMBERS] == []
