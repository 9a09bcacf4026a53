"""A lane of tests says what it installs and how far it is."""

from pathlib import Path

from scripts.packages import Installation, cost, locked, missing


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
