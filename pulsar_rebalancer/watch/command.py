"""`rebalancer watch`: shows a cluster, what would be moved and why, without changing anything."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.cli.own_shedder_warning import own_shedders
from pulsar_rebalancer.doctor.java_python_and_spark import check_java
from pulsar_rebalancer.settings.merge_sources import Settings, load
from pulsar_rebalancer.settings.page_address_and_log_settings import serve_address
from pulsar_rebalancer.watch.watch_folder import (
    DEFAULT_FOLDER,
    DEMO_FOLDER,
    WatchFolder,
    check_same_clusters,
    opened_folder,
    settings_of,
    write_settings,
)
from pulsar_rebalancer.watch.watch_loop import (
    GROUP,
    DryRuns,
    WatchScreen,
    follow,
    modelled_cluster,
    started,
    with_port,
)
from sinks.collector.open_cluster import discovered
from sinks.graceful_stop import Stop, stopping, wall_clock_ms
from sinks.topics.open_topics import open_consumer
from strategies.errors import SettingsError
from streaming.checkpoint.guard import checkpoint_folder
from streaming.start_lines import StartNews

#: What Pulsar's own shedder means for a user who watches.
_WATCHED = "it moves bundles while you watch, and rounds yield to many such moves"


def watch(
    *,
    admin_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Web service of a broker (pulsar.admin_urls), for example http://broker:8080.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the token of a role with super-user rights (pulsar.token_file).",
        ),
    ] = None,
    modelled: Annotated[
        bool, typer.Option("--demo", help="Watch a modelled cluster, without servers.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for topics, state and logs, instead of ./rebalancer-watch."
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address of the page, instead of 127.0.0.1:8085."),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser.")
    ] = False,
    config: options.Config = None,
    overrides: options.Overrides = None,
) -> None:
    """Watch a cluster: collect load, decide, and show a live page. Changes nothing on the cluster.

    Runs `collect`, `run` and `serve` on topics in a folder, and answers every command with a dry
    run. Ctrl-C stops all; the next start goes on. The settings file in the folder also works for
    the single programs.
    """
    places = options.flags(
        pulsar__admin_urls=admin_url,
        pulsar__token_file=None if token_file is None else str(token_file.absolute()),
        serve__listen=listen,
    )
    settings = options.settings(config, overrides, *places)
    _check(settings, modelled, named=bool(admin_url or token_file))
    wanted = folder or (DEMO_FOLDER if modelled else DEFAULT_FOLDER)
    with stopping() as stop, opened_folder(wanted, empty=modelled) as used:
        console.progress("Asking the cluster …" if not modelled else "Preparing the cluster …")
        subjects = _prepare(used, settings, stop, modelled)
        _watch(used, subjects, stop, modelled, open_page)
    again = "the same command continues this watch"
    if modelled:
        again = "the next demo starts from the beginning"
    console.progress(f"stopped ({stop.by}); {again}")
    if stop.by == "SIGINT":
        raise typer.Exit(exit_codes.INTERRUPTED)


def _check(settings: Settings, modelled: bool, *, named: bool) -> None:
    """Raises SettingsError, before anything is written, if nothing says which cluster to watch, or
    if Spark would find no Java. `named`: a flag names the cluster.
    """
    if modelled and named:
        raise SettingsError(
            ["--demo: watches a modelled cluster; omit --admin-url and --token-file, or --demo"]
        )
    if not modelled and not any(cluster.admin_urls for cluster in settings.clusters):
        raise SettingsError(
            [
                "pulsar.admin_urls: is empty; name the web service of a broker (rebalancer watch "
                "--admin-url http://broker:8080), or watch a modelled cluster (--demo)"
            ]
        )
    found = check_java(os.environ)
    if found.status == "fail":
        raise SettingsError([f"java: {found.text}; {found.remedy}"])


def _prepare(used: WatchFolder, settings: Settings, stop: Stop, modelled: bool) -> list[str]:
    """Writes the settings file, and describes each cluster. Raises AdminError, SettingsError."""

    page = {"serve.listen": str(with_port(serve_address(settings.serve)))}
    if modelled:
        write_settings(used, settings, page | {"pulsar.cluster": "demo"}, named=False)
        return ["demo: modelled, 8 brokers; it starts 20 minutes ago and catches up"]
    found = [discovered(cluster, stop.wait) for cluster in settings.clusters]
    check_same_clusters(used, [one.pulsar.cluster for one in found])
    named = settings.clusters != (settings.connections.pulsar,)
    more = {} if named else settings_of(found[0])
    write_settings(used, settings, page | more, named)
    return [
        f"{one.pulsar.cluster}: {len(one.brokers)} brokers, {one.load_manager} load manager; "
        "nothing on it is changed"
        for one in found
    ]


def _watch(
    used: WatchFolder, subjects: list[str], stop: Stop, modelled: bool, open_page: bool
) -> None:

    settings = load(used.settings_file)
    topics = settings.connections.topics
    if modelled:
        executor = modelled_cluster(topics)
    else:
        executor = DryRuns(topics, used.positions, wall_clock_ms)
    screen, address = WatchScreen(), serve_address(settings.serve)
    page = f"{'https' if settings.serve.tls_cert else 'http'}://{address}/"
    commands = ["serve", *([] if modelled else ["collect"]), "run"]
    with (
        closing(executor),
        closing(open_consumer(topics.rounds, GROUP, used.positions)) as rounds,
        started(used, commands) as processes,
        own_shedders(() if modelled else settings.clusters, settings.collector, _WATCHED) as own,
    ):
        processes.wait_for(address, stop.wait)
        screen.begin(subjects, used, page)
        if open_page:
            _open(page)
        follow(
            processes,
            executor.step,
            rounds,
            screen,
            stop,
            telemetry=topics.telemetry.folder,
            clock_ms=wall_clock_ms,
            starting=StartNews(checkpoint_folder(settings.job)).look,
            shedders=own,
        )
        console.progress("Stopping the processes …")


def _open(page: str) -> None:
    import webbrowser

    if not webbrowser.open(page):
        console.warn([f"no browser found; open {page}"])
