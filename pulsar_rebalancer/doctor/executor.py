"""Checks of the executor's folder: write access, the journal, and the brake file."""

from __future__ import annotations

from pathlib import Path

from pulsar_rebalancer.cli.finding import Finding, Rule, evaluate
from pulsar_rebalancer.doctor.disk_and_topics import existing, writable
from sinks.executor.journal import JournalInUse, unfinished_commands
from sinks.executor.settings import ExecutorSettings, pause_file, state_folder
from strategies.errors import RebalancerError, SettingsError

_CHECK = "executor"
_REMEDY = "set executor.state to a folder that this user may write"
_DAMAGED = (
    "restore the file, or set executor.state to a new folder once the commands in the journal "
    "have expired"
)


def check_executor(settings: ExecutorSettings) -> Finding:
    """Creates nothing. A job needs no executor on its machine, so a folder that cannot be created
    is a warning.
    """
    try:
        folder = state_folder(settings)
        if not folder.exists():
            return _new_folder(folder)
        if not writable(folder):
            return Finding(
                _CHECK, "fail", f"{folder} is not writable", f"change its owner, or {_REMEDY}"
            )
        text = _journal(folder)
    except SettingsError as error:
        return Finding(_CHECK, "fail", error.complaints[0], _REMEDY)
    except RebalancerError as error:
        return Finding(_CHECK, "fail", str(error), _DAMAGED)
    brake = pause_file(settings)
    return evaluate(
        _CHECK,
        text,
        Rule(
            brake.exists(),
            "warn",
            f"{text}; {brake} exists, so the executor applies no command",
            "delete that file to continue",
        ),
    )


def _journal(folder: Path) -> str:
    try:
        left = unfinished_commands(folder)
    except JournalInUse:
        return f"{folder} is in use by a running executor"
    if left is None:
        return f"{folder} has no journal yet"
    return f"{folder}, no executor runs" + (
        f"; {left} commands are unfinished; the next start checks them" if left else ""
    )


def _new_folder(folder: Path) -> Finding:
    above = existing(folder)
    return evaluate(
        _CHECK,
        f"{folder} will be created",
        Rule(
            not writable(above),
            "warn",
            f"{folder} cannot be created: {above} is not writable",
            f"before an executor runs here, {_REMEDY}",
        ),
    )
