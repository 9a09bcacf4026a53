"""Reads the pages below docs/ and says which of their links, paths and tests do not exist."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tests.architecture.layers import PACKAGES

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
_RECORD = re.compile(r"^(\d{4})-[a-z0-9-]+\.md$")
_STATUS = re.compile(
    r"accepted|settled in part|(?:amended|superseded) by \d{4}(?:(?:, \d{4})* and \d{4})?"
)


@dataclass(frozen=True, slots=True)
class Record:
    """A decision record: the number of its file, the number of its title, its date, and its status
    without links, in lower case.
    """

    name: str
    number: str
    titled: str
    date: str
    status: str


def pages(root: Path) -> list[Path]:
    """All pages for people: those of the root, of docs/, and those beside the code."""
    folders = ("docs", ".github", "benchmarks", "tests/conformance", "tools", *PACKAGES)
    return [
        *sorted(root.glob("*.md")),
        *(page for folder in folders for page in sorted((root / folder).rglob("*.md"))),
    ]


def words_of_docs(root: Path) -> int:
    """The words of the pages of docs/, without the decision records."""
    return sum(
        len(page.read_text("utf-8").split())
        for page in (root / "docs").rglob("*.md")
        if page.parent.name != "decisions"
    )


def files_of(root: Path) -> frozenset[str]:
    """Every file and folder that a page may name, relative to `root`."""
    found = [
        path
        for folder in FOLDERS
        for path in (root / folder).rglob("*")
        if "__pycache__" not in path.parts
    ]
    return frozenset(
        str(path.relative_to(root))
        for path in [*found, *(root / name for name in FOLDERS), *root.glob("*.*")]
    )


def missing_links(root: Path, page: Path) -> Iterator[str]:
    """Links to files and headings that are not there."""
    for target in _LINK.findall(page.read_text("utf-8")):
        if "://" in target:
            continue
        place, _, anchor = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        if not file.exists():
            yield f"{page.relative_to(root)}: no file {target}"
        elif anchor and anchor not in anchors(file.read_text("utf-8")):
            yield f"{page.relative_to(root)}: no heading {target}"


def anchors(text: str) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower())
        .strip()
        .replace(" ", "-")
        for heading in headings
    }


def missing_paths(text: str, files: frozenset[str]) -> list[str]:
    """Paths and modules of the repository that `text` names and that are not there."""
    named = [
        word
        for code in _CODE.findall(_FENCE.sub("", text))
        for word in re.split(r"[\s,;()]+", code.split("::")[0])
    ]
    modules = [name for name in _MODULE.findall(text) if name.split(".")[0] in FOLDERS]
    return [word for word in named if is_path(word) and not is_there(word.rstrip("/"), files)] + [
        name
        for name in modules
        if not {name.replace(".", "/"), name.replace(".", "/") + ".py"} & files
    ]


def is_path(word: str) -> bool:
    """Whether a word of code names a file of the repository: below one of its folders, or any
    Python file.
    """
    return (word.split("/", maxsplit=1)[0] in FOLDERS and "/" in word) or bool(
        re.fullmatch(r"[\w/]+\.py", word)
    )


def is_there(word: str, files: frozenset[str]) -> bool:
    """Python files may be named by the last parts of their path."""
    if "*" in word:
        return any(fnmatch(file, word) for file in files)
    return word in files or (
        word.endswith(".py") and any(file.endswith("/" + word) for file in files)
    )


def missing_tests(text: str, root: Path, files: frozenset[str]) -> Iterator[str]:
    """Tests named `file.py::name`; `…` ends a name that is cut off, and a reference without a file
    belongs to the one before.
    """
    file = ""
    for named, path in _TEST.findall(text):
        file = named if named.endswith(".py") else file
        sources = [
            (root / one).read_text("utf-8")
            for one in files
            if one.startswith("tests/") and f"/{one}".endswith(f"/{file}")
        ]
        for name in path.split("::")[1:]:
            pattern = rf"(?:def|class) {re.escape(name.rstrip('…'))}" + (
                "" if name.endswith("…") else r"\b"
            )
            if not any(re.search(pattern, source) for source in sources):
                yield f"{file}::{name}"


def records(folder: Path) -> list[Record]:
    """The decision records in `folder`, in order of their file names."""
    return [record(file) for file in sorted(folder.glob("*.md")) if file.name != "README.md"]


def record(file: Path) -> Record:
    """Reads the first lines of a record; a field is empty where they do not say it."""
    number, text = _RECORD.match(file.name), file.read_text("utf-8")
    title = re.match(r"# (\d{4}) · ", text)
    dated = re.match(r"# .*\n\n\*\*(\d{4}-\d\d-\d\d)\*\* · (.+)\n", text)
    return Record(
        file.name,
        number[1] if number else "",
        title[1] if title else "",
        dated[1] if dated else "",
        plain(dated[2]) if dated else "",
    )


def index(text: str) -> list[tuple[str, str]]:
    """File name and status of every row of the index."""
    rows = re.findall(r"^\| \[\d{4}\]\(([^)]+)\) \| .+ \| (.+) \|$", text, re.MULTILINE)
    return [(name, plain(status)) for name, status in rows]


def plain(status: str) -> str:
    """A status in one line, without its links and its full stop."""
    return (
        re.sub(r"\[(\d{4})\]\([^)]*\)", r"\1", " ".join(status.split())).removesuffix(".").lower()
    )


def is_status(text: str) -> bool:
    """Whether this is one of the four forms that docs/decisions/README.md lists."""
    return _STATUS.fullmatch(text) is not None
