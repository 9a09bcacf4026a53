"""`make test` finds a browser for the report's tests, or gets one, or says how to get one; without
one these tests are skipped.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.test_bootstrap import program, shell, system
from tests.chromium import chromium_path

FIND, INSTALL = "scripts/browser.sh find {}/venv", "scripts/browser.sh install {}/venv"


def test_a_browser_on_the_path_is_taken(tmp_path: Path) -> None:
    program(tmp_path / "bin/chromium", "exit 0")
    assert shell(tmp_path, FIND.format(tmp_path)).stdout == f"{tmp_path}/bin/chromium\n"


def test_one_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "bin/chromium", "exit 1")
    program(tmp_path / "bin/google-chrome", "exit 0")
    assert shell(tmp_path, FIND.format(tmp_path)).stdout == f"{tmp_path}/bin/google-chrome\n"


def test_without_one_the_advice_is_one_line(tmp_path: Path) -> None:
    answer = shell(tmp_path, FIND.format(tmp_path))
    assert answer.returncode == 1
    assert "apt-get install chromium" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert answer.stdout == ""


def test_without_one_a_test_is_skipped_with_the_advice(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"):
        chromium_path(system(tmp_path))


def test_with_one_that_is_named_and_does_not_start_a_test_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="does not start"):
        chromium_path({**system(tmp_path), "REBALANCER_BROWSER": str(tmp_path / "nothing")})


def test_root_on_debian_gets_one(tmp_path: Path) -> None:
    program(tmp_path / "bin/id", "echo 0")
    made = tmp_path / "bin/chromium"
    program(
        tmp_path / "bin/apt-get",
        f'case "$*" in *install*) printf "#!/bin/bash\\nexit 0\\n" > {made}; /bin/chmod +x '
        f"{made};; esac",
    )
    answer = shell(tmp_path, INSTALL.format(tmp_path))
    assert answer.stdout == f"{made}\n", answer.stderr


def test_where_it_cannot_be_installed_that_is_said(tmp_path: Path) -> None:
    program(tmp_path / "bin/id", "echo 1000")
    answer = shell(tmp_path, INSTALL.format(tmp_path))
    assert answer.returncode == 1
    assert "none could be installed" in answer.stderr


def test_a_named_browser_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    program(tmp_path / "bin/chromium", "exit 0")
    answer = shell(tmp_path, FIND.format(tmp_path), REBALANCER_BROWSER=str(tmp_path / "nothing"))
    assert answer.returncode == 1
    assert "does not start" in answer.stderr
