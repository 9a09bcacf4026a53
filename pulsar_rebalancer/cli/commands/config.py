"""`rebalancer config`: all settings with the source of each value, the check of a settings file,
and the JSON Schema.
"""

from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.settings.broker_conf import converted_conf_text as shown_as
from pulsar_rebalancer.settings.broker_conf.convert import convert, refuse_nothing
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade
from pulsar_rebalancer.settings.check_values import json_schema, shown
from pulsar_rebalancer.settings.merge_sources import load
from pulsar_rebalancer.settings.setting_paths import all_leaves
from pulsar_rebalancer.settings.value_sources import SettingEntry
from strategies.java.pulsar_versions_and_defaults import RELEASES

#: Minimum width for the table.
_WIDE = 100

app = typer.Typer(no_args_is_help=True, help="Show or check settings, or print their JSON Schema.")


@app.command(short_help="All settings with values and their sources.")
def show(
    config: options.Config = None,
    overrides: options.Overrides = None,
    *,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only settings that differ from their defaults.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show all settings with value, source, unit, Pulsar's own key and description.

    Flags override the environment, the environment overrides the file, the file overrides defaults.
    """
    entries = [
        entry
        for entry in options.settings(config, overrides).entries
        if not changed or entry.kind != "default"
    ]
    if as_json:
        console.print_json("settings", 1, {"settings": [_as_json(entry) for entry in entries]})
        return
    for section, group in groupby(entries, key=lambda entry: entry.leaf.section):
        layout = _as_table if console.out().width >= _WIDE else _as_list
        console.show(Text(f"[{section}]", style="bold"), layout(list(group)), "")


@app.command(short_help="Check a settings file.")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Settings file (TOML).")],
) -> None:
    """Check a settings file without the environment. Exit code 2 and one line per complaint if
    something is wrong.
    """
    settings = load(file)
    entries = settings.entries
    given = sum(entry.kind == "file" for entry in entries)
    console.warn(settings.warnings)
    console.say(f"{file}: valid, sets {given} of {len(entries)} settings")


@app.command(short_help="Print the JSON Schema of settings files.")
def schema() -> None:
    """Print the JSON Schema of settings files, for editors and other programs."""
    console.say_json(json_schema(all_leaves()))


@app.command("from-broker-conf", short_help="Convert a broker.conf to a settings file.")
def from_broker_conf(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A broker.conf, or variables, YAML or JSON with its keys."
        ),
    ],
    *,
    pulsar: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Also show what an upgrade to this version changes for the keys that the file "
            "leaves out.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Convert a Pulsar broker.conf to a settings file on standard output, with all load-balancing
    keys.

    Also reads what people have in place of it: variables of Pulsar's images (PULSAR_PREFIX_…),
    ConfigMaps, Helm values, compose files, and what get-runtime-config of pulsar-admin prints.

    Keys without effect are reported on standard error with their lines. Exit code 2 if a value is
    invalid.
    """

    release = None if pulsar is None else options.named_release(pulsar, "--pulsar")
    conversion = convert(file)
    console.warn(conversion.warnings)
    refuse_nothing(file, conversion)
    upgrade = None if release is None else Upgrade(conversion.given, RELEASES[0], release)
    if as_json:
        console.print_json("broker-conf", 1, shown_as.as_json(file, conversion, upgrade))
    else:
        console.say(*shown_as.as_toml(file, conversion, upgrade).removesuffix("\n").split("\n"))


def _as_table(entries: list[SettingEntry]) -> console.Sheet:
    rows: list[list[str | Text]] = [
        [entry.leaf.key, _value(entry), _origin(entry), _meaning(entry)] for entry in entries
    ]
    return console.Sheet(
        [("key", "left"), ("value", "left"), ("from", "left"), ("meaning", "left")], rows
    )


def _as_list(entries: list[SettingEntry]) -> Group:
    """For narrow terminals: the description is below the value, so that Pulsar's long keys stay
    whole.
    """
    keys, values = (
        max(len(entry.leaf.key) for entry in entries),
        max(len(_value(entry)) for entry in entries),
    )
    return Group(
        *(
            part
            for entry in entries
            for part in (
                Text(f"{entry.leaf.key:<{keys}}  {_value(entry):<{values}}  {_origin(entry)}"),
                Padding(_meaning(entry), (0, 0, 0, 4)),
            )
        )
    )


def _value(entry: SettingEntry) -> str:
    unit = entry.leaf.setting.unit
    return f"{shown(entry.value)} {unit}" if unit else shown(entry.value)


def _origin(entry: SettingEntry) -> str:
    """The kind of source; for a default that depends on the Pulsar release, also which one."""
    return entry.source if entry.kind == "default" and entry.source else entry.kind


def _meaning(entry: SettingEntry) -> Text:
    text = Text(entry.leaf.setting.text)
    if entry.leaf.defaults:
        each = ", ".join(
            f"{shown(value)} with {release}" for release, value in entry.leaf.defaults.items()
        )
        text.append(f"\nDefault: {each}", style="dim")
    if entry.leaf.setting.pulsar:
        text.append(f"\nPulsar: {entry.leaf.setting.pulsar}", style="dim")
    return text


def _as_json(entry: SettingEntry) -> dict[str, Any]:
    setting = entry.leaf.setting
    return {
        "path": entry.leaf.path,
        "value": entry.value,
        "default": entry.leaf.default,
        **({"defaults": dict(entry.leaf.defaults)} if entry.leaf.defaults else {}),
        "from": entry.kind,
        "source": entry.source or None,
        "unit": setting.unit or None,
        "pulsar_key": setting.pulsar,
        "env": entry.leaf.env,
        "text": setting.text,
    }
