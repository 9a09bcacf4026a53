"""An operator moves a bundle on the live page and undoes it; job and executor carry it out."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.control_topic import Control
from tests.live_server import OPERATOR, VIEWER, page_of
from tests.telemetry_lines import bundle
from tests.unit.folding_job import SETTINGS, FoldingJob

pytestmark = pytest.mark.browser
A, B, C = "a:1", "b:1", "c:1"
BUNDLE = bundle(0)


def searched(page: Page, token: str) -> Page:
    """Signs in and searches for the bundle."""
    page.fill("#token", token)
    page.press("#token", "Enter")
    page.locator("#history .row").first.wait_for()
    page.fill("#subject", BUNDLE)
    page.press("#subject", "Enter")
    expect(page.locator("#answer-lines")).to_contain_text(BUNDLE)
    return page


def agree(page: Page, reason: str) -> None:
    """Says yes to what the dialog shows, at first without a reason."""
    expect(page.locator("#ask-yes")).to_be_enabled()
    page.press("#ask-reason", "Enter")
    expect(page.locator("#ask-problem")).to_contain_text("Write a reason first")
    page.fill("#ask-reason", reason)
    page.press("#ask-reason", "Enter")
    expect(page.locator("#ask")).to_be_hidden()


def test_an_operator_moves_a_bundle_and_undoes_it_and_a_viewer_sees_no_button(
    tmp_path: Path, open_live: Open
) -> None:
    job = FoldingJob(Control(tmp_path), (A, B, C))
    words = [*SETTINGS, *job.demand_signatures()]
    with job.running(), page_of(tmp_path, words, tokens=True) as running:
        assert searched(open_live(running), VIEWER).locator("#answer-do button").count() == 0

        page = searched(open_live(running), OPERATOR)
        page.get_by_role("button", name=f"Move {BUNDLE}").click()
        shown = page.locator("#ask-preview")
        page.select_option("#ask-to", A)
        expect(shown).to_have_text(f"It stays: it is on {A} already.")
        expect(page.locator("#ask-yes")).to_be_disabled()
        page.select_option("#ask-to", C)
        expect(shown).to_contain_text("The next round moves it from a to c.")
        expect(shown).to_contain_text("Expected usage: a 20.0 → 14.0 %, c 20.0 → 26.0 %.")
        expect(shown).to_contain_text("3 topics (0.2 MiB/s) will notice a pause of about 1.00 s (")
        agree(page, "new disks")
        done = page.locator("#intents [data-state=done]")
        expect(done).to_contain_text(
            re.compile(f"move {BUNDLE} to {C}: done, .*; Grace: new disks")
        )
        assert job.owners[BUNDLE] == C

        page.locator("#only-moves").check()
        page.locator("#history .row", has_text="1 applied").click()
        page.get_by_role("button", name="Undo the moves of round").click()
        expect(shown).to_contain_text(f"moves {BUNDLE} from c to a.")
        agree(page, "the disks are there")
        expect(done).to_have_count(2)
        assert job.owners[BUNDLE] == A
