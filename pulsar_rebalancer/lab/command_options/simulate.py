"""`rebalancer simulate`: scenarios × strategies × seeds on modelled clusters, in virtual time."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.lab.command_options import html_and_recording_options
from strategies.java.pulsar_versions_and_defaults import RELEASES

#: Words instead of a scenario: all published cards, compared with the published figures; all
#: built-in scenarios.
PUBLISHED, ALL = "published", "all"
_Scenarios = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCENARIO…",
        help="Names or .toml files; published = the cards E1–E10, all = all of --list.",
    ),
]
_Strategy = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="name, name/mode or name/mode+placement; all = every strategy. Repeatable.",
    ),
]
_Mode = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="fixed or parity, if --strategy does not name it; default: the scenario's.",
    ),
]
_Seeds = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000,
        metavar="N",
        help="Runs of each scenario, with different traffic; default 5, for published 20.",
    ),
]
_Bundles = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Number of bundles instead of the scenario's; 4.2 or 5.0: as many as a new "
        "namespace of this Pulsar release has.",
    ),
]
_Minutes = Annotated[
    int | None,
    typer.Option(min=2, metavar="N", help="Length in minutes instead of the scenario's."),
]
_Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the telemetry of the first run as a recording, .jsonl or .parquet.",
    ),
]
_Jobs = Annotated[
    int | None,
    typer.Option(
        min=1, max=256, metavar="N", help="Number of processes; default: the machine's cores."
    ),
]


def simulate(
    scenarios: _Scenarios = None,
    *,
    listed: Annotated[bool, typer.Option("--list", help="List the built-in scenarios.")] = False,
    strategy: _Strategy = None,
    mode: _Mode = None,
    seeds: _Seeds = None,
    first_seed: Annotated[int, typer.Option(min=0, metavar="N", help="First seed.")] = 1,
    bundles: _Bundles = None,
    minutes: _Minutes = None,
    jobs: _Jobs = None,
    overrides: options.Overrides = None,
    html: html_and_recording_options.Html = None,
    record: _Record = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Run strategies on modelled clusters in virtual time.

    The same seed gives the same figures on every machine and with any number of processes. The
    scenario `published` runs the cards E1–E10 and prints, for each published figure, its percentile
    among the figures of the seeds. The report of --html shows the first seed of each run.
    """
    from pulsar_rebalancer.lab import requested_runs
    from pulsar_rebalancer.lab.command_runs.simulate import scenario_list_and_output
    from pulsar_rebalancer.lab.command_runs.simulate.scenarios_report import write_report
    from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios

    if listed:
        scenario_list_and_output.list_scenarios(as_json)
        return
    html_and_recording_options.check_target(html)
    if record is not None:
        options.refuse_existing(record, force)
    compared = scenarios == [PUBLISHED]
    count = seeds or (20 if compared else 5)
    names = read_scenarios.published() if compared else _names(scenarios) or read_scenarios.names()
    asked = {"bundles": _bundles(bundles), "minutes": minutes}.items()
    requests = requested_runs.run_requests(
        names,
        strategy or (),
        range(first_seed, first_seed + count),
        mode=mode,
        changes={key: value for key, value in asked if value is not None},
        overrides=overrides or (),
    )
    requested_runs.checked([one for one in requests if one.seed == first_seed])  # before any run
    requests[0] = replace(requests[0], record=record)
    with scenario_list_and_output.progress(len(requests)) as advance:
        made = requested_runs.make_all(
            requests,
            jobs or os.cpu_count() or 1,
            advance,
            lambda request: html is not None and request.seed == first_seed,
        )
    show = scenario_list_and_output.show_published if compared else scenario_list_and_output.show
    show(made, as_json)
    if html is not None:
        write_report(made, html)


def _bundles(text: str | None) -> int | str | None:
    """A number of bundles, or a Pulsar release."""
    if text is None or text in RELEASES:
        return text
    if text.isascii() and text.isdigit() and len(text) < 8 and int(text) > 0:
        return int(text)
    raise typer.BadParameter(
        f"{text!r} is neither a number of bundles from 1 on nor a Pulsar release "
        f"({' or '.join(RELEASES)})",
        param_hint="--bundles",
    )


def _names(scenarios: Sequence[str] | None) -> tuple[str, ...]:
    """The named scenarios, none for all of them. Raises BadParameter."""
    if not scenarios:
        raise typer.BadParameter(
            "name a scenario (see --list), or all, or published for the cards E1–E10",
            param_hint="SCENARIO",
        )
    for word in (PUBLISHED, ALL):
        if word in scenarios and len(scenarios) > 1:
            raise typer.BadParameter(
                f"{word} cannot be combined with other scenarios", param_hint="SCENARIO"
            )
    return () if list(scenarios) == [ALL] else tuple(dict.fromkeys(scenarios))
