"""A lane of tests says what it installs and how far it is."""

from __future__ import annotations

from pathlib import Path

from scripts.packages import Installation, cost, locked, measure, missing
from strategies.shedding.avg.settings import Need, need_of
from streaming.jars.locked_jars import Jar
from tests.skipping import skipped_without_server
from tests.unit.metric_samples import get
from tools.servers.jvm import JarsNotHere

BROWSER = Need("A browser", "80 MB", lambda: False, lambda: "there is no network")


@pytest.mark.heavy
def test_jars_that_are_missing_are_listed_with_their_size(tmp_path: Path) -> None:
    listed = listing(tmp_path, "test-lab")
    assert listed[0] == "make test-lab fetches, once:"
    assert "  Spark's Kafka connector: 4 jars, 9 MiB" in listed
    assert any(line.startswith("  Kafka for tests: ") for line in listed)
    assert not any("Pulsar" in line for line in listed)


@pytest.mark.heavy
def test_what_is_here_is_not_listed(tmp_path: Path) -> None:
    for jar, folder in ((jar, tmp_path / "pulsar-rebalancer/spark-kafka") for jar in connector()):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / jar.name).open("wb") as file:
            file.truncate(jar.size)
    assert not any("connector" in line for line in listing(tmp_path, "test-lab"))


def test_without_needs_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show("test-lab", [])
    assert "jars" not in capsys.readouterr().err


def test_every_lane_knows_its_needs() -> None:
    assert [need_of(name).title for name in LANES["test-long"]] == [
        "Chromium",
        "Debian's Prometheus",
        "Spark's Kafka connector",
        "Kafka for tests",
        "Pulsar 4.2 for tests",
        "Pulsar 5.0 for tests",
    ]


def test_what_cannot_be_had_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    get(BROWSER)
    assert capsys.readouterr().err.splitlines() == [
        "Fetching A browser: 80 MB",
        "A browser cannot be had, tests that need it are skipped: there is no network",
    ]


def test_a_server_without_its_jars_skips_its_tests() -> None:
    with pytest.raises(pytest.skip.Exception, match="no network"), skipped_without_server():
        raise JarsNotHere("no network")


def test_unfinished_downloads_count(tmp_path: Path) -> None:
    jars = [Jar(("g", name, "1"), 10, "") for name in ("whole", "half", "absent")]
    (tmp_path / "whole-1.jar").write_bytes(b"0123456789")
    (tmp_path / ".half-1.jar.part").write_bytes(b"01234")
    assert arrived(jars, tmp_path) == 15


def test_the_progress_of_pip_is_one_sentence(tmp_path: Path) -> None:
    run = Installation("dev.lock", ["numpy", "pyspark"], tmp_path)
    assert run.progress() == "0 of 2 packages are here, 0 MB; next: an answer of the package index"
    run.follow("Collecting numpy==2.4.6 (from -r dev.lock (line 1))")
    run.follow("Collecting pyspark==4.2.0 (from -r dev.lock (line 2))")
    run.follow("Downloading pyspark-4.2.0.tar.gz (450.1 MB)")
    (tmp_path / "pip-unpack-1").mkdir()
    (tmp_path / "pip-unpack-1/pyspark-4.2.0.tar.gz").write_bytes(bytes(5_000_000))
    assert run.progress() == "1 of 2 packages are here, 22 MB; next: pyspark-4.2.0.tar.gz"
    run.follow("Installing collected packages: numpy, pyspark")
    assert run.progress() == "2 of 2 packages are unpacked"


def test_this_environment_lacks_nothing_of_the_locks() -> None:
    assert missing("product.lock") == missing("dev.lock") == []
    assert "colorama" not in locked("dev.lock")  # for Windows only


def test_the_cost_is_that_of_the_packages_that_are_missing() -> None:
    assert cost(["pyspark"]).startswith("450 MB to download unless pip's cache has them, 49")
    assert cost([]).startswith("0 MB")


def test_sizes_are_those_of_files_and_of_what_they_become(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/Ruamel_yaml-1.0-py3-none-any.whl").write_bytes(b"0123")
    info = tmp_path / "installed/ruamel.yaml-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: ruamel.yaml\nVersion: 1.0\n", "utf-8")
    (info / "RECORD").write_text("ruamel/yaml.py,sha256=x,70\nruamel/c.so,sha256=y,7\n", "utf-8")
    _, line = measure(tmp_path / "files", tmp_path / "installed")
    assert line == "ruamel-yaml 1.0 4 1000"
