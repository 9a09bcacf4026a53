"""The images are checked without a container engine.

Linters read the files, and the commands of the containers are run on this machine with the packages
the images hold.
"""

import re
import shutil
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.merge_sources import load
from strategies.settings import VERSION
from tests.architecture.command_line import ROOT, run, unknown_options
from tests.architecture.containers import Container, Image, our_containers, read_compose, read_image
from tests.unit.command_line import rebalancer

COMPOSE_FILE = ROOT / "docker/compose.yaml"
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
CONTAINERS = our_containers(read_compose(COMPOSE_FILE), ROOT)


def test_the_compose_file_has_the_whole_road() -> None:
    assert {container.service: container.profiles for container in CONTAINERS} == {
        **dict.fromkeys(("spark-master", "spark-worker", "job"), ()),
        "collector": ("servers",),
        "executor": ("servers",),
        "notifier": ("notices",),
        "page": ("page",),
    }


def test_monitoring_reads_folders_that_exist_and_changes_nothing_in_them() -> None:
    services = read_compose(COMPOSE_FILE)["services"]
    for name in ("prometheus", "grafana"):
        assert services[name]["profiles"] == ["monitoring"]
        mounts = [volume.split(":") for volume in services[name]["volumes"]]
        mounted = [(folder, mode) for folder, _, *mode in mounts if folder.startswith("./")]
        assert mounted
        for folder, mode in mounted:
            assert (COMPOSE_FILE.parent / folder).is_dir()
            assert mode == ["ro"]
        assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"])


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_the_linter_of_dockerfiles_has_nothing_to_say(dockerfile: Path) -> None:
    answer = run("hadolint", str(dockerfile))
    assert (answer.stdout, answer.returncode) == ("", 0)


@pytest.mark.heavy
def test_compose_itself_reads_the_file() -> None:
    tool = compose_tool()
    if tool is None:
        pytest.skip(
            "neither docker-compose nor docker compose is installed; the schema was checked "
            "without them"
        )

    profiles = ("--profile", "servers", "--profile", "monitoring")
    answer = run(*tool, "-f", str(COMPOSE_FILE), *profiles, "config", "--services")

    assert set(answer.stdout.split()) == set(read_compose(COMPOSE_FILE)["services"])


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_an_image_is_pinned_unprivileged_and_watched(dockerfile: Path) -> None:
    image = read_image(dockerfile)
    assert is_pinned(image.base)
    assert image.user.isdecimal()
    assert int(image.user) > 0
    assert image.health
    assert [source for source in image.copied if not (ROOT / source).exists()] == []


def test_only_the_image_of_the_job_holds_java_and_spark() -> None:
    job, executor = (
        (ROOT / f"docker/{name}.Dockerfile").read_text("utf-8") for name in ("job", "executor")
    )
    assert "jre" in job
    assert "jre" not in executor
    assert "requirements/executor.lock" in executor
    assert "pyspark==" not in (ROOT / "requirements/executor.lock").read_text("utf-8")


def test_the_image_of_the_job_holds_the_kafka_connector_where_its_settings_look() -> None:
    text = (ROOT / "docker/job.Dockerfile").read_text("utf-8")
    (fetched,) = re.findall(r"rebalancer jars fetch (\S+)", text)
    (looked,) = re.findall(r"REBALANCER_JARS__FOLDER=(\S+)", text)
    assert fetched == looked
    assert load(None, {"REBALANCER_JARS__FOLDER": looked}).job.jars.folder == fetched
    assert unknown_options(("rebalancer", "jars", "fetch", fetched), positions=3) == []


def test_services_are_pinned_and_watched() -> None:
    services = read_compose(COMPOSE_FILE)["services"]
    assert services
    for name, service in services.items():
        assert is_pinned(service["image"]), name
        if "build" in service:
            assert service["image"].endswith(f":{VERSION}"), name
        else:
            assert service["healthcheck"]["test"][0] == "CMD", name


@pytest.mark.parametrize(
    "container", [it for it in CONTAINERS if it.words[0] == "rebalancer"], ids=lambda it: it.service
)
def test_the_command_of_a_container_exists(container: Container) -> None:
    assert unknown_options(container.words) == []


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_the_command_of_an_image_exists(dockerfile: Path) -> None:
    image: Image = read_image(dockerfile)
    assert unknown_options(image.entrypoint + image.command) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "container", [it for it in CONTAINERS if it.words[0] != "rebalancer"], ids=lambda it: it.service
)
def test_the_spark_class_of_a_container_exists(container: Container) -> None:
    assert container.words[0] == "spark-class"
    assert unknown_options(container.words, positions=2) == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    "environment",
    [{}, {"REBALANCER_JOB__MASTER": "spark://spark-master:7077"}],
    ids=["image", "compose"],
)
def test_the_settings_of_the_containers_are_good(environment: dict[str, str]) -> None:
    answer = rebalancer(
        "config", "show", "--config", ROOT / "docker/rebalancer.toml", env=environment
    )
    assert answer.code == 0, answer.words


def compose_tool() -> tuple[str, ...] | None:
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    if shutil.which("docker") and run("docker", "compose", "version").returncode == 0:
        return ("docker", "compose")
    return None


def is_pinned(image: str) -> bool:
    """Whether the tag names one version: at least two numbers, nothing like `latest`."""
    tag = image.rpartition(":")[2].removeprefix("v")
    return tag != image and tag.split("-")[0].count(".") >= 1 and tag[0].isdigit()
