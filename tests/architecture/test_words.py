"""Plain technical English: words that product code, scripts and pages do not use, in texts as in
names (CONTRIBUTING, house rule 8).
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Word or phrase → what to write instead.
BANNED = {
    "told": "reports, logs, has reported",
    "tell": "report, log, distinguish",
    "tells": "reports, logs, shows",
    "nobody": "the component's name, with 'no' or 'not'",
    "somebody": "the component's name, 'another process', 'a user'",
    "everybody": "the components' name",
    "whoever": "the component's name",
    "anew": "again",
    "afresh": "again, from zero",
    "so many": "this number of, n, maximum number of",
    "so long": "this duration, for n seconds",
    "lies": "is in, is on",
    "stands in": "is in",
    "lets go": "closes",
    "heeds": "respects",
    "hands": "passes, returns, assigns",
    "wish": "request, setting",
    "wishes": "requests, requires",
    "wished": "requested",
    "evening": "balancing",
    "feels responsible": "claims",
    "no login:": "authentication failed:",
    "no trust:": "TLS certificate not trusted:",
}
#: Parts of contracts: reason codes, which programs compare.
CONTRACTS = ("nobody-to-take", "nobody-below", "nobody-to-judge")

CHECKED = (
    "sinks",
    "streaming",
    "strategies",
    "pulsar_rebalancer",
    "scripts",
    "tools",
    "deploy",
    "docker",
    "examples",
    "docs",
    "README.md",
    "Makefile",
    "pyproject.toml",
)
#: Folders in which docstrings of functions begin with a verb and no docstring with a question word.
WITH_SENTENCES = ("strategies/cluster", "strategies/fold", "strategies/round", "streaming")
QUESTION = re.compile(r"(What|Whether|How|Who|When|Where|Why|Which)\b")
#: `Returns …`, `True if …`; a docstring of arguments alone begins with the first of them.
SENTENCE = re.compile(r"[A-Z][a-z]*s\b|True if\b|`|See\b")
#: Records of decisions and versions keep the words of their time.
HISTORY = ("docs/decisions/", "docs/CHANGELOG.md")


@pytest.mark.heavy
def test_product_texts_and_names_use_plain_words() -> None:
    assert [find for file in checked_files() for find in finds_in(file)] == []


def test_docstrings_are_sentences_about_their_function() -> None:
    files = [file for folder in WITH_SENTENCES for file in sorted((ROOT / folder).rglob("*.py"))]
    assert [
        f"{file.relative_to(ROOT)}: {find}" for file in files for find in unclear_docstrings(file)
    ] == []


def unclear_docstrings(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or "Has none."
            is_function = isinstance(node, ast.FunctionDef) and not node.decorator_list
            if QUESTION.match(text) or (is_function and not SENTENCE.match(text)):
                yield text.splitlines()[0]


def checked_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", *CHECKED], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [file for file in listed if not file.startswith(HISTORY) and (ROOT / file).is_file()]


def finds_in(file: str) -> Iterator[str]:
    """Banned words in prose (`told`, `Told`) and in parts of names (`_told`, `RoundTold`,
    `TOLD_MS`).
    """
    for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1):
        for find in PATTERN.finditer(without_links_and_contracts(line)):
            word = find[0].lower()
            yield f"{file}:{number}: {word}: write {BANNED[word]}"


def without_links_and_contracts(line: str) -> str:
    line = re.sub(r"\]\([^)]*\)", "]()", line)
    for code in CONTRACTS:
        line = line.replace(code, "")
    return line


def _pattern() -> re.Pattern[str]:
    forms = []
    for phrase in map(re.escape, BANNED):
        end = "" if phrase.endswith(":") else "(?![a-z])"
        forms += [
            f"(?<![A-Za-z]){phrase}{end}",
            f"{phrase[0].upper()}{phrase[1:]}{end}",
            f"(?<![A-Z]){phrase.upper().replace(' ', '_')}(?![A-Za-z])",
        ]
    return re.compile("|".join(forms))


PATTERN = _pattern()
