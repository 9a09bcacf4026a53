"""Everything but the streaming job works where Spark is not installed, and everything but the
laboratory in the executor's image, which holds neither.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.main import COMMANDS, ELSEWHERE
from tests.architecture.command_line import ROOT, run
from tests.architecture.layers import PACKAGES, is_of_laboratory

DOCKERFILE = ROOT / "docker/executor.Dockerfile"
LABORATORY = {name for name, module in ELSEWHERE.items() if is_of_laboratory(module)}

#: Hides everything of the [spark] extra from an interpreter.
WITHOUT_SPARK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas", "pyarrow", "google"):
            raise ModuleNotFoundError(f"No module named {name!r} (hidden by the test)", name=name)

sys.meta_path.insert(0, Missing())
"""
REBALANCER = """
from pulsar_rebalancer.cli.main import main
sys.argv[0] = "rebalancer"
main()
"""
#: Prints which of the commands it is given do not explain themselves. One process for all: each
#: would load the same for half a second.
EXPLAIN = """
from tests.unit.command_line import rebalancer
print("mute:", *(name for name in sys.argv[1:] if rebalancer(name, "--help").code))
"""

#: Prints what each of these commands answers.
ANSWERS = """
from tests.unit.command_line import rebalancer
for name in sys.argv[1:]:
    answer = rebalancer(*name.split())
    print(answer.code, answer.words.strip())
"""

#: What `watch --demo` asks before it starts anything.
WATCH_DEMO = """
from pulsar_rebalancer.cli.errors import reported
from pulsar_rebalancer.watch.watch_loop import modelled_cluster
with reported():
    modelled_cluster(None)
"""
NOT_INSTALLED = "the laboratory, which this command belongs to, is not installed here"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the executor's image installs of our packages."""
    folder = tmp_path_factory.mktemp("image")
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for removed in re.findall(r"rm -r (\S+)", DOCKERFILE.read_text("utf-8")):
        shutil.rmtree(folder / removed)
    return folder


@pytest.mark.heavy
def test_every_command_explains_itself() -> None:
    answer = run(sys.executable, "-c", WITHOUT_SPARK + EXPLAIN, *COMMANDS)
    assert answer.stdout == "mute:\n"


@pytest.mark.heavy
def test_the_image_of_the_executor_has_every_command_but_the_laboratory(image: Path) -> None:
    assert not (image / "pulsar_rebalancer/lab").exists()
    commands = sorted(COMMANDS.keys() - LABORATORY)

    answer = in_image(image, EXPLAIN, *commands)

    assert {"collect", "execute", "notify", "serve"} <= {*commands}
    assert answer == "mute:\n"


@pytest.mark.heavy
def test_a_command_of_the_laboratory_says_where_it_is_not_installed(image: Path) -> None:
    asked = [*sorted(LABORATORY), "replay --help"]

    answers = in_image(image, ANSWERS, *asked).splitlines()

    assert len(answers) == len(asked) == 11
    assert all(answer.startswith(f"1 error: {NOT_INSTALLED}") for answer in answers)
    assert f"error: {NOT_INSTALLED}" in in_image(image, WATCH_DEMO)


@pytest.mark.heavy
def test_a_recording_is_replayed(tmp_path: Path) -> None:
    recording = ROOT / "tests/data/recordings/modular-broker-killed.jsonl.gz"
    answer = run(
        sys.executable,
        "-c",
        WITHOUT_SPARK + REBALANCER,
        "replay",
        str(recording),
        "--out",
        str(tmp_path),
    )
    assert answer.returncode == 0, answer.stdout
    assert (tmp_path / "rounds.jsonl").stat().st_size > 0


def in_image(image: Path, script: str, *words: str) -> str:
    """The output of a script that sees the packages of the image before those of the project."""
    return run(
        sys.executable,
        "-c",
        WITHOUT_SPARK + script,
        *words,
        folder=image,
        environment={"PYTHONPATH": str(ROOT)},
    ).stdout
