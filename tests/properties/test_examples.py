"""How hard counterexamples are looked for: as hard as docs/CONTRIBUTING.md says, and no property
may ask for less.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import EXAMPLES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_the_makefile_and_the_page_name_the_profiles() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert set(re.findall(r"--hypothesis-profile=(\w+)", makefile)) == set(EXAMPLES) - {"thorough"}
    page = (ROOT / "docs" / "CONTRIBUTING.md").read_text("utf-8")
    assert f"`make test` {EXAMPLES['thorough']} examples" in page
    assert f"`make test-long` {EXAMPLES['long']:,}" in page


def test_no_property_sets_a_number_of_its_own() -> None:
    own = {
        file.name for file in HERE.glob("test_*.py") if "max_examples" in file.read_text("utf-8")
    }
    count_their_stories = {"test_fold.py", "test_drained_fold.py"}
    assert own <= {Path(__file__).name, *count_their_stories}
