"""Two pages as tests read them: their text, and the rows of worked examples."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = "\n".join(
    (ROOT / page).read_text("utf-8")
    for page in ("docs/STRATEGIES.md", "tests/conformance/README.md")
)


def example(name: str) -> list[list[str]]:
    """Rows of the table marked with this name, without its head."""
    found = re.search(rf"<!-- example: {name} -->\n(.*?)<!-- /example -->", PAGE, re.DOTALL)
    assert found is not None
    made = rows(found[1])[2:]
    assert made
    return made


def rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def numbers(cell: str) -> list[float]:
    return [float(word) for word in re.findall(r"[\d.]+", cell)]
