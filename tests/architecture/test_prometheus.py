"""`make test` finds Debian's Prometheus, or unpacks the package without installing it, or says that
it is missing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.architecture.test_bootstrap import program, shell

FIND, INSTALL = "scripts/prometheus.sh find {}/venv", "scripts/prometheus.sh install {}/venv"


def test_both_programs_on_the_path_are_taken(tmp_path: Path) -> None:
    program(tmp_path / "bin/prometheus", "exit 0")
    program(tmp_path / "bin/promtool", "exit 0")
    assert shell(tmp_path, FIND.format(tmp_path)).stdout == f"{tmp_path}/bin\n"


def test_one_of_them_alone_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "bin/promtool", "exit 0")
    answer = shell(tmp_path, FIND.format(tmp_path))
    assert answer.returncode == 1
    assert "apt-get install prometheus" in answer.stderr
    assert answer.stdout == ""


def test_an_unpacked_package_is_found(tmp_path: Path) -> None:
    place = tmp_path / "venv/prometheus/usr/bin"
    program(place / "prometheus", "exit 0")
    program(place / "promtool", "exit 0")
    assert shell(tmp_path, FIND.format(tmp_path)).stdout == f"{place}\n"


def test_on_debian_the_package_is_unpacked_beside_the_environment(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    for name in ("mkdir", "rm", "chmod"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    program(tmp_path / "bin/id", "echo 1000")
    program(
        tmp_path / "bin/apt-get",
        '[ "$1 $3" = "download prometheus" ] && echo package > prometheus_2.deb',
    )
    made = 'for one in prometheus promtool; do printf "#!/bin/sh\\nexit 0\\n" > usr/bin/$one; done'
    program(
        tmp_path / "bin/dpkg-deb",
        f'[ "$2" = prometheus_2.deb ] && mkdir -p usr/bin && {made} && chmod +x usr/bin/*',
    )
    answer = shell(tmp_path, INSTALL.format(tmp_path))
    assert answer.stdout == f"{tmp_path}/venv/prometheus/usr/bin\n", answer.stderr
    assert not list((tmp_path / "venv/prometheus").glob("*.deb"))


def test_where_it_cannot_be_fetched_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    answer = shell(tmp_path, INSTALL.format(tmp_path))
    assert answer.returncode == 1
    assert "could not be fetched" in answer.stderr
