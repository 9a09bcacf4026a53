"""Relative links and anchors of the Markdown pages exist, and the pages that code and settings name do."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
NAMED_PAGE = re.compile(r"\bdocs/[A-Z_]+\.md\b")
NAMING = ("*.py", "*.toml", "*.yaml", "*.json", "*.Dockerfile", "Makefile")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`, three\n[a](#one-two-three) [b](#no) [c](none.md) [d](https://x.org/e)\n```\n[f](g)\n```\n", "utf-8")

    assert broken_links(page) == ["#no", "none.md"]


def test_headings_with_the_same_text_are_numbered() -> None:
    assert anchors("# A\n## A\n## B's (c)\n") == {"a", "a-1", "bs-c"}


def test_pages_that_code_names_exist() -> None:
    files = subprocess.run(("git", "ls-files", *NAMING), cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    named = {found for file in files if (ROOT / file).is_file() for found in NAMED_PAGE.findall((ROOT / file).read_text("utf-8"))}

    assert {page for page in named if not (ROOT / page).is_file()} == set()


def broken_links(page: Path) -> list[str]:
    text = INLINE_CODE.sub("``", FENCE.sub("", page.read_text("utf-8")))
    return [target for target in LINK.findall(text) if "://" not in target and not leads_somewhere(page, target)]


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    return file.exists() and (not anchor or anchor in page_anchors(file))


@cache
def page_anchors(page: Path) -> set[str]:
    return anchors(page.read_text("utf-8"))


def anchors(text: str) -> set[str]:
    """The anchors of a page as GitHub makes them: lower case, spaces as hyphens, other punctuation left out."""
    seen = Counter[str]()
    found = set[str]()
    for heading in HEADING.findall(FENCE.sub("", text)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found
