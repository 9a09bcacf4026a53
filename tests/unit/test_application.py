"""The job as an application of Spark, and what travels to its workers."""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow_spark_api.models import SparkV1beta2SparkApplication

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.cli.main import load
from pulsar_rebalancer.doctor.java_python_and_spark import check_shipped
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from strategies.settings import VERSION
from streaming.checkpoint.guard import JAVA_LOCK, CheckpointInUse, guarded
from streaming.checkpoint.remembered_and_changed_settings import guard_of
from streaming.cluster.shipping import (
    PACKAGES,
    Application,
    check_environment,
    client_words,
    cluster_words,
    needed_distributions,
    packed_files,
    python_name,
    read_manifest,
    write_environment,
)
from streaming.cluster.spark_submit_start import shipped_archive, with_those_of_spark
from streaming.settings import JobSettings
from streaming.settings import local_path as archive_here
from tests.unit.command_line import rebalancer

ROOT = Path(__file__).parents[2]
JOB = JobSettings(master="spark://spark-master:7077", driver_memory="800m")
RUN = ("run", "--config", "/srv/rebalancer.toml")
MADE = Application(Path("/srv/application"), ("connector.jar", "clients.jar"))


def value_of(option: str, words: Sequence[str]) -> str:
    return words[words.index(option) + 1]


def test_client_mode_starts_the_launcher_which_finds_the_archive() -> None:
    words = client_words(MADE, JOB, RUN)
    assert words[0] == "spark-submit"
    assert value_of("--master", words) == "spark://spark-master:7077"
    assert value_of("--driver-memory", words) == "800m"
    assert value_of("--jars", words) == (
        "file:///srv/application/jars/connector.jar,file:///srv/application/jars/clients.jar"
    )
    assert words[-4:] == ["file:///srv/application/rebalancer-submit.py", *RUN]
    other = "file:///other.zip#other"
    assert shipped_archive(f"{other},{value_of('--archives', words)}") == (
        "file:///srv/application/environment.tar.gz"
    )
    assert shipped_archive(other) == shipped_archive("") == ""


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("run", "--master", "local[7]"),
        ("run", "--set", "job.master=local[7]", "--set", "job.environment=/other.tar.gz"),
        ("--debug", "run", "--master=local[7]", "--drain"),
    ],
)
def test_the_job_uses_master_and_archive_of_spark_submit(words: Sequence[str]) -> None:
    """Whatever the words after the program say."""
    those = ("spark://here:7077", "/e.tar.gz")
    name, *arguments = with_those_of_spark(words, *those)[words.index("run") :]
    given = load(name).make_context(name, arguments).params
    flags = options.flags(job__master=given["master"])
    job = options.settings(None, given["overrides"], *flags).job
    assert (job.master, job.environment) == those
    other = ["doctor", "--config", "run"]
    assert with_those_of_spark(other, *those) == other


def test_cluster_mode_on_a_standalone_master_submits_a_java_program_of_spark() -> None:
    """Also from a folder with blanks."""
    words = cluster_words(Application(Path("/srv/our job #2 100%"), ("a.jar",)), JOB, RUN)
    folder = "file:///srv/our%20job%20%232%20100%25"
    assert value_of("--archives", words) == f"{folder}/environment.tar.gz#rebalancer-environment"
    assert value_of("--jars", words) == f"{folder}/jars/a.jar"
    assert value_of("--deploy-mode", words) == "cluster"
    assert value_of("--class", words) == "org.apache.spark.deploy.PythonRunner"
    # The jar is fetched into the driver's folder, and Python runs it from there.
    jar = words.index(f"{folder}/pulsar-rebalancer.jar")
    assert words[jar + 1 :] == ["pulsar-rebalancer.jar", "", *RUN]


@pytest.mark.heavy
def test_ship_writes_the_application_and_prints_how_to_submit_it(tmp_path: Path) -> None:
    folder, settings = tmp_path / "application", tmp_path / "rebalancer.toml"
    settings.write_text("[job]\nread_tasks = 3\n")
    # spark-submit has the master itself: written twice, the two could differ.
    changed = ("--set", "job.driver_memory=800m", "--set", "job.master=spark://spark-master:7077")
    words = ("--application", folder, "--config", settings, *changed)
    shipped = rebalancer("ship", *words, "--json").json
    made = Application(folder, ())
    run = ("run", "--config", str(settings), "--set", "job.driver_memory=800m")
    modes = {"client": client_words(made, JOB, run), "cluster": cluster_words(made, JOB, run)}
    assert shipped["spark_submit"] == modes
    written = {str(path) for path in folder.iterdir()}
    assert {*shipped["files"]} == written == {str(file) for file in made.files()}
    unpacked = tmp_path / "unpacked"
    with tarfile.open(folder / "environment.tar.gz") as archive:
        archive.extractall(unpacked, filter="data")
    assert {*PACKAGES} < {path.name for path in unpacked.iterdir()}
    # Without the packages that are installed here.
    program = ("-S", "-m", "pulsar_rebalancer.cli.main", "--version")
    ran = python(*program, cwd=tmp_path, env={"PYTHONPATH": str(unpacked)})
    assert (ran.returncode, ran.stdout) == (0, f"rebalancer {VERSION}\n")
    started = python(str(folder / "pulsar-rebalancer.jar"))
    assert started.returncode == 1
    assert "start it with spark-submit" in started.stderr
    assert "Traceback" not in started.stderr


def python(*words: str, **given: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **given)


def manifest() -> dict[str, Any]:
    file = ROOT / "deploy/spark-operator/spark-application.yaml"
    return dict(yaml.safe_load(file.read_text("utf-8")))


def test_the_manifest_keeps_to_the_types_of_the_operator() -> None:
    """A field that the operator does not know is lost in its model."""
    model = SparkV1beta2SparkApplication.from_dict(manifest())
    assert model is not None
    assert model.to_dict() == manifest()


def test_the_manifest_starts_the_application_with_the_pinned_spark() -> None:
    spec, made = manifest()["spec"], Application(Path("/opt/pulsar-rebalancer"), ())
    (archives,) = spec["deps"]["archives"]
    submitted = client_words(made, JobSettings(), ("run",))
    assert archives == value_of("--archives", submitted).replace("file:", "local:")
    assert spec["mainApplicationFile"] == submitted[-2].replace("file:", "local:")
    assert spec["sparkVersion"] == metadata.version("pyspark")
    assert spec["driver"]["memory"] == JobSettings().driver_memory


def test_the_pods_of_the_manifest_have_the_volumes_and_the_rights_of_deploy_kubernetes() -> None:
    """Its namespace refuses other pods; without the group, they could not read the keys."""
    spec = manifest()["spec"]
    job = ROOT / "deploy/kubernetes/job.yaml"
    deployed = yaml.safe_load(job.read_text("utf-8"))["spec"]["template"]["spec"]
    volumes = {one["name"]: one for one in deployed["volumes"]}
    assert spec["volumes"] == [volumes[one["name"]] for one in spec["volumes"]]
    (here,) = deployed["containers"]
    mounts = {one["name"]: one for one in here["volumeMounts"] if one["name"] != "tmp"}
    container = dict(here["securityContext"])
    del container["readOnlyRootFilesystem"]  # Spark unpacks into its working directory
    user = {"runAsUser": 185, "fsGroup": 185}
    pod = {**deployed["securityContext"], **user}
    del pod["runAsGroup"]
    for name, mounted in (("driver", mounts.keys()), ("executor", {"state", "secrets"})):
        assert spec[name]["podSecurityContext"] == pod
        assert spec[name]["securityContext"] == container
        assert {one["name"]: one for one in spec[name]["volumeMounts"]} == {
            volume: mounts[volume] for volume in mounted
        }


def test_a_checkpoint_is_in_use_as_long_as_java_holds_its_lock(tmp_path: Path) -> None:
    """Java's locks are those of fcntl; another process has one here."""
    guard = guard_of(JobSettings(checkpoint=str(tmp_path)), EngineSettings())
    with guarded(tmp_path, guard):
        (tmp_path / JAVA_LOCK).touch()
    locking = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'r+')\nfcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\nsys.stdin.read()"
    )
    words = [sys.executable, "-c", locking, str(tmp_path / JAVA_LOCK)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as java:
        assert java.stdout is not None
        assert java.stdout.readline() == b"locked\n"
        with pytest.raises(CheckpointInUse), guarded(tmp_path, guard, timeout_s=0):
            pass
        java.communicate()
    with guarded(tmp_path, guard, timeout_s=0):
        pass


HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def archive(folder: Path, python: str = HERE, **versions: str) -> Path:
    """Says that it holds what is installed here, but for `versions`; it holds nothing."""
    packages = {name: one.version for name, one in needed_distributions().items()} | versions
    says = {"v": 1, "python": python, "platform": "any", "packages": packages}
    return archive_of(folder, "rebalancer-environment.json", says)


def archive_of(folder: Path, name: str, tree: Mapping[str, object]) -> Path:
    text, entry = json.dumps(tree).encode(), tarfile.TarInfo(name)
    entry.size = len(text)
    file = folder / "environment.tar.gz"
    with tarfile.open(file, "w:gz") as made:
        made.addfile(entry, io.BytesIO(text))
    return file


def test_an_archive_of_the_same_packages_fits(tmp_path: Path) -> None:
    check_environment(archive(tmp_path, python_name().removeprefix("python")))
    packages = read_manifest(archive(tmp_path)).packages
    assert packages["numpy"] == metadata.version("numpy")
    assert {"pandas", "pyarrow", "msgspec", "protobuf", "pytz"} <= packages.keys()
    assert {"pyspark", "py4j", "pulsar-rebalancer", "pytest"} & packages.keys() == set()


def test_an_archive_of_another_python_or_of_other_versions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        check_environment(archive(tmp_path, python="3.9", numpy="1.0"))
    assert refused.value.complaints == [
        f"job.environment: {tmp_path}/environment.tar.gz contains Python 3.9, here {HERE}; "
        f"numpy 1.0, here {metadata.version('numpy')}: "
        f"make it again with: rebalancer ship {tmp_path}/environment.tar.gz"
    ]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x1f\x8b\x08\x00", None])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = archive_of(tmp_path, "readme.json", {})
    if content is not None:
        file.write_bytes(content)
    for named, says in (
        (file, "is not an archive of this program; make one with: rebalancer ship"),
        (tmp_path / "gone.tar.gz", r"gone\.tar\.gz does not exist; make it with: rebalancer ship"),
    ):
        with pytest.raises(SettingsError, match=says):
            check_environment(named)


def test_an_archive_has_a_place_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be written"):
        write_environment(tmp_path / "file" / "environment.tar.gz")


def test_an_archive_may_be_named_as_a_file_uri() -> None:
    named = ("/srv/our files/e.tar.gz", "file:///srv/our%20files/e.tar.gz")
    assert {archive_here(one) for one in named} == {Path("/srv/our files/e.tar.gz")}
    assert archive_here("file:/srv/e.tar.gz") == Path("/srv/e.tar.gz")
    assert archive_here("https://files.example/e.tar.gz") is archive_here("") is None


def test_a_file_that_an_image_has_left_out_is_not_packed(tmp_path: Path) -> None:
    described = tmp_path / "thing-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Name: thing\nVersion: 1.0\n")
    (described / "RECORD").write_text("thing.py,,\nthing-1.0.dist-info/LICENSE,,\n")
    (tmp_path / "thing.py").touch()
    packed = packed_files([metadata.Distribution.at(described)])
    assert list(packed) == [(tmp_path / "thing.py", "thing.py")]


@pytest.mark.heavy
def test_doctor_compares_the_archive_before_it_is_used(tmp_path: Path) -> None:
    job = JobSettings(master="spark://master:7077", environment=str(archive(tmp_path)))
    assert [finding.status for finding in check_shipped(job)] == ["ok"]
    archive(tmp_path, numpy="1.0")
    (finding,) = check_shipped(job)
    assert finding.status == "fail"
    assert finding.remedy == f"rebalancer ship {tmp_path}/environment.tar.gz"
    assert check_shipped(replace(job, master="local[2]")) == []
    assert check_shipped(replace(job, environment="https://files.example/e.tar.gz")) == []
