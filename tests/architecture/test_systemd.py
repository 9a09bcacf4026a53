"""The units of deploy/systemd start commands that exist, as a user without privileges, and stop
them as the processes stop.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.settings.merge_sources import load
from tests.architecture.command_line import BIN, ROOT, run, unknown_options
from tests.architecture.containers import command_line, read_compose
from tests.architecture.units import Unit, commented, read_unit

FOLDER = ROOT / "deploy/systemd"
PREFIX = "pulsar-rebalancer-"
#: Every process by the name of its service in the compose file, in order of start.
PROCESSES = ("collector", "job", "executor", "page", "notifier")
UNITS = {name: read_unit(FOLDER / f"{PREFIX}{name}.service") for name in PROCESSES}
TARGET = "pulsar-rebalancer.target"
#: Every service has these: it has no privileges, a stop asks the process alone (Java and Spark's
#: Python workers finish the micro-batch; SIGTERM would end them), errors are repeated except wrong
#: settings, and the file with secrets may be missing.
ALL_HAVE = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectControlGroups": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallFilter": "@system-service",
    "KillSignal": "SIGTERM",
    "KillMode": "mixed",
    "Restart": "on-failure",
    "RestartPreventExitStatus": str(exit_codes.SETTINGS),
    "EnvironmentFile": "-/etc/pulsar-rebalancer/environment",
}
EVERY_UNIT = pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)


def test_there_is_one_service_for_each_process_and_a_target_for_all() -> None:
    assert {file.name for file in FOLDER.iterdir() if file.suffix in (".service", ".target")} == {
        *(unit.name for unit in UNITS.values()),
        TARGET,
    }
    assert all(unit.value("Install", "WantedBy") == TARGET for unit in UNITS.values())
    assert all(unit.value("Unit", "PartOf") == TARGET for unit in UNITS.values())
    assert read_unit(FOLDER / TARGET).value("Install", "WantedBy") == "multi-user.target"


@pytest.mark.parametrize("process", PROCESSES)
def test_a_service_runs_the_command_of_its_container(process: str) -> None:
    program, *words = UNITS[process].command
    service = read_compose(ROOT / "docker/compose.yaml")["services"][process]

    assert Path(program).name == "rebalancer"
    assert ("rebalancer", *words) == command_line(service, ROOT)


def test_the_executor_makes_a_dry_run_and_its_comment_says_how_to_apply() -> None:
    executor = UNITS["executor"]
    wanted = [
        line.removeprefix("ExecStart=")
        for line in commented(FOLDER / executor.name)
        if line.startswith("ExecStart=/")
    ]

    assert "--apply" not in executor.command
    assert [tuple(shlex.split(line)) for line in wanted] == [(*executor.command, "--apply")]
    assert unknown_options(("rebalancer", *executor.command[1:], "--apply")) == []


def test_services_start_in_the_order_of_the_data_and_so_stop_in_reverse() -> None:
    for place, process in enumerate(PROCESSES):
        after = UNITS[process].value("Unit", "After").split()
        assert after == [
            "network-online.target",
            *(f"{PREFIX}{earlier}.service" for earlier in PROCESSES[:place]),
        ]


@EVERY_UNIT
def test_a_service_has_what_all_have_and_waits_longer_than_compose(unit: Unit) -> None:
    grace = read_compose(ROOT / "docker/compose.yaml")["services"]["job"]["stop_grace_period"]

    assert {name: unit.value("Service", name) for name in ALL_HAVE} == ALL_HAVE
    assert int(unit.value("Service", "TimeoutStopSec")) >= int(grace.removesuffix("s"))
    # More than the 5 starts in 10 s after which systemd gives a service up.
    assert int(unit.value("Service", "RestartSec")) > 2


@EVERY_UNIT
def test_a_service_has_a_user_of_its_own_and_writes_to_its_state_only(unit: Unit) -> None:
    (user,) = re.findall(r"^u (\S+) ", (FOLDER / "sysusers.conf").read_text("utf-8"), re.MULTILINE)
    state = Path("/var/lib", unit.value("Service", "StateDirectory"))
    settings = load()

    assert user != "root"
    assert (unit.value("Service", "User"), unit.value("Service", "Group")) == (user, user)
    assert unit.value("Service", "WorkingDirectory") == str(state)
    states = (settings.executor.state, settings.notices.state)
    for folder in (settings.job.checkpoint, *states):
        assert state in Path(folder).parents


def test_the_job_alone_makes_memory_executable_and_has_temporary_files_beside_its_state() -> None:
    """Java compiles; a private /tmp is tmpfs where /tmp is."""
    kept = {name for name in UNITS if UNITS[name].values("Service", "MemoryDenyWriteExecute")}
    variables = {name: unit.values("Service", "Environment") for name, unit in UNITS.items()}
    state = UNITS["job"].value("Service", "StateDirectory")

    assert kept == {*UNITS} - {"job"}
    assert variables.pop("job") == [f"TMPDIR=/var/lib/{state}"]
    assert not any(variables.values())


def test_the_environment_file_is_empty_until_edited_and_sets_settings_that_exist() -> None:
    file = FOLDER / "environment"
    variables = dict(line.split("=", 1) for line in commented(file) if "=" in line)

    assert read_unit(file).lines == ()
    assert {"REBALANCER_PULSAR__TOKEN_FILE", "REBALANCER_SIGNING__KEY_FILE"} <= variables.keys()
    assert all(name.endswith("_FILE") for name in variables if re.search("TOKEN|KEY_|PASS", name))
    load(None, variables)


def test_the_settings_file_of_the_services_is_good_and_keeps_the_folders_they_can_write() -> None:
    settings, defaults = load(FOLDER / "rebalancer.toml"), load()

    assert settings.warnings == []
    assert settings.job.checkpoint == defaults.job.checkpoint
    assert (settings.collector, settings.executor) == (defaults.collector, defaults.executor)


def test_the_page_installs_where_the_services_look_and_turns_their_metrics_on() -> None:
    page = (ROOT / "docs/DEPLOYMENT.md").read_text("utf-8")
    folder = load(FOLDER / "rebalancer.toml").job.jars.folder
    (variable, value) = re.findall(r"`Environment=(REBALANCER_\w+)=(\S+)`", page)[0]

    assert folder
    assert f"jars fetch {folder}\n" in page
    for unit in UNITS.values():
        assert f"-m venv {Path(unit.command[0]).parents[1]}\n" in page
    assert load(None, {variable: value}).metrics.listen == value


def test_systemd_reads_the_units_without_a_complaint(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed; the units were checked without it")
    answer = run("systemd-analyze", "verify", "--man=no", *map(str, installed(tmp_path)))

    assert (answer.returncode, answer.stdout) == (0, "")


def installed(folder: Path) -> list[Path]:
    """The units as on a machine with `rebalancer` where they look for it."""
    files = []
    for unit in (*UNITS.values(), read_unit(FOLDER / TARGET)):
        text = (FOLDER / unit.name).read_text("utf-8")
        files.append(folder / unit.name)
        files[-1].write_text(text.replace("=/opt/rebalancer/bin/rebalancer", f"={BIN}/rebalancer"))
    return files
