"""Files of cases: `# name`, `> input`, and what is said about it, which `make golden` rewrites."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.golden.printed import compare

FOLDER = Path(__file__).with_name("answers")


def assert_told(name: str, tell: Callable[[Sequence[str]], Iterable[str]], rewrite: bool) -> None:
    """`tell`: from the lines of an input to those of the answer."""
    file = FOLDER / name
    cases = [case.splitlines() for case in file.read_text("utf-8").strip().split("\n\n")]
    answers = "\n\n".join("\n".join(_answered(case, tell)) for case in cases)
    compare(file, (answers, "\n"), rewrite)


def _answered(case: Sequence[str], tell: Callable[[Sequence[str]], Iterable[str]]) -> Iterable[str]:
    kept = [line for line in case if line.startswith(("#", ">"))]
    yield from kept
    asked = [line[1:].removeprefix(" ") for line in kept if line.startswith(">")]
    answers = [f"  {line}" for line in tell(asked)]
    assert answers, f"nothing is said about {case}"
    yield from answers
