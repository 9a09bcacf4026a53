"""Output of the demo: on a terminal, rounds with a live table of brokers below; elsewhere, the same
lines as plain text.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from pulsar_rebalancer.decisions.skip_and_certificate_texts import advice_text, sentences
from pulsar_rebalancer.lab.demo.plan import BROKERS, BUNDLES, DemoPlan
from pulsar_rebalancer.lab.demo.result import Result, files, next_commands
from pulsar_rebalancer.lab.report.chart_data import setting_text
from pulsar_rebalancer.lab.simulation.polled_cluster import RoundAnswer
from pulsar_rebalancer.lab.simulation.timeline import unjudged
from pulsar_rebalancer.lab.strategy_goal import Goal
from strategies.cluster.model import Round
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.round.commands_and_record import proof_of

#: Content of each file and folder of the run.
_WHAT: Mapping[str, str] = {
    "telemetry": "load reports of the brokers (like all topics: one JSON record per line)",
    "commands": "bundles to move, with the reason",
    "rounds": "input and decision of each round, with all skips",
    "rejected": "invalid records",
    "outcomes": "result of each command",
    "settings": "settings of this run",
    "report": "charts of this run: open it in a browser",
    "checkpoint": "progress and state of the Spark job",
    "log": "log of the Spark job",
}


def short(broker: str) -> str:
    """A broker's name without its port."""
    return broker.rpartition(":")[0] or broker


def introduction(plan: DemoPlan, goal: Goal) -> list[tuple[str, str]]:
    """Describes the run that follows: pairs of label and sentence."""
    decider = (
        "the Spark job (rebalancer run)" if plan.engine == "spark" else "a plain loop (no Spark)"
    )
    others = [
        f"{path.rpartition('.')[2]} = {setting_text(value)}: {why}"
        for path, (value, why) in plan.overrides.items()
    ]
    others += [f"{path} = {setting_text(value)}" for path, value in plan.requested.items()]
    return [
        (
            "cluster",
            f"modelled: {BROKERS} brokers, {BUNDLES} bundles; two brokers run hot, two were "
            "restarted and are nearly idle",
        ),
        (
            "round",
            f"one minute of its own time: all brokers report, {decider} decides, a simulated "
            "executor moves bundles",
        ),
        (
            "strategy",
            f"{goal.strategy.java_class}, {plan.mode} mode: "
            f"{goal.strategy.summary[:1].lower()}{goal.strategy.summary[1:].rstrip('.')}",
        ),
        ("goal", goal.text),
        (
            "settings",
            f"{plan.settings_file}, all at their defaults"
            + (f" except {'; '.join(others)}" if others else ""),
        ),
    ]


def extremes(record: Round) -> tuple[str, str]:
    """The busiest and the idlest broker of a round, each with its usage."""
    by_usage = sorted(record.usage.items(), key=lambda item: item[1])
    (idlest, low), (busiest, high) = by_usage[0], by_usage[-1]
    return f"{short(busiest)} {100 * high:.1f} %", f"{short(idlest)} {100 * low:.1f} %"


def decided(step: RoundAnswer, goal: Goal) -> str:
    """The decision of a round in a few words."""
    if step.commands:
        return f"{counted(len(step.commands), 'bundle')} to move"
    return "balanced, nothing to move" if goal.reached(step.round) else "nothing to move yet"


def reasons(step: RoundAnswer, goal: Goal) -> list[str]:
    """One line per source broker with the reason of its first command, and what the round proves,
    if its strategy states it; without commands, why the busiest broker keeps its bundles, and what
    to do where moving bundles cannot help.
    """
    proof = proof_of(step.round)
    if step.commands:
        lines = [
            _moves_of(source, step) for source in dict.fromkeys(one.source for one in step.commands)
        ]
        lines += sentences(proof)
    else:
        lines = [] if goal.reached(step.round) else _why_not(step.round)
        lines += [advice_text(skip, proof.certificate) for skip in proof.advice]
    return [_shortened(line, step.round.brokers) for line in lines]


def closing(result: Result, program: str, here: Path) -> list[str]:
    """Lists the files and the next commands. `program`: name of the program; `here`: folder that
    shown paths are relative to.
    """
    lines = [f"Files are in {result.plan.folder}:"]
    lines += [f"  {name:<12} {_WHAT[kind]}" for kind, name in files(result.plan).items()]
    lines += ["Try next:"]
    lines += [f"  {program} {command}" for command in next_commands(result, here)]
    return lines


def _moves_of(source: str, step: RoundAnswer) -> str:
    """`8 bundles a → b, c; the first because …`. Destinations are taken from the outcomes, because
    an unload names none.
    """
    commands = [one for one in step.commands if one.source == source]
    went = {outcome.command_id: outcome.owner_after or "nowhere" for outcome in step.outcomes}
    destinations = dict.fromkeys(went[one.id] for one in commands)
    first = "" if len(commands) == 1 else "; the first"
    return (
        f"{counted(len(commands), 'bundle')} {source} → {', '.join(destinations)}{first} because "
        f"{commands[0].text}"
    )


def _shortened(line: str, brokers: Sequence[str]) -> str:
    for broker in brokers:
        line = line.replace(broker, short(broker))
    return line


def _why_not(record: Round) -> list[str]:
    busiest = max(record.usage, key=lambda name: record.usage[name])
    advice = proof_of(record).advice
    skips = [skip for skip in record.skips if skip not in advice]
    about = [skip for skip in skips if skip.subject == "broker" and busiest in skip.names]
    return [skip.text for skip in (about or skips)[:1]]


_BAR_WIDTH = 20
_INDENT = 7
_LABEL = 10


@contextmanager
def open_screen(plan: DemoPlan, goal: Goal, quiet: bool = False) -> "Iterator[Screen]":
    """A screen with the introduction printed. `quiet`: prints to standard error, so that standard
    output has the JSON object only.
    """
    screen = Screen(Console(stderr=quiet, highlight=False), goal)
    screen.introduce(introduction(plan, goal))
    with screen.live():
        yield screen


class Screen:
    """Prints each round; on a terminal, a table of the brokers' usage at the start and now stays
    below the rounds until the end.
    """

    def __init__(self, console: Console, goal: Goal) -> None:
        self._console, self._goal = console, goal
        self._first: Mapping[str, float] = {}
        self._now: Mapping[str, float] = {}
        self._spinner = Spinner("dots")
        self._waiting_for, self._since = "", time.monotonic()
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal and "NO_COLOR" not in os.environ:
            self._live = Live(
                console=console, get_renderable=self._picture, refresh_per_second=8, transient=True
            )

    def live(self) -> AbstractContextManager[object]:
        """Shows the table of brokers while the context is open."""
        return nullcontext() if self._live is None else self._live

    def introduce(self, labelled: Sequence[tuple[str, str]]) -> None:
        """Prints the introduction in two columns: label and sentence."""
        for label, text in labelled:
            self._print_beside(f"{label:<{_LABEL}}", text, style="")
        self.say([""])

    def say(self, lines: Sequence[str], wrap: bool = True) -> None:
        """Prints lines, wrapped between words on a terminal; without `wrap` they can be copied
        unchanged.
        """
        for line in lines:
            self._console.print(Text(line), soft_wrap=not (wrap and self._console.is_terminal))

    def wait(self, text: str) -> None:
        """Shows what the demo waits for: beside the spinner on a terminal, otherwise on a line of
        its own.
        """
        if self._live is None:
            self.say([text])
        self._waiting_for, self._since = text, time.monotonic()

    def step(self, step: RoundAnswer) -> None:
        """Prints a round."""
        if not self._first:
            self._first = step.round.usage
            self._console.print(
                _row("round", "spread", "busiest", "idlest", "decision", style="bold")
            )
        self._now = step.round.usage
        busiest, idlest = extremes(step.round)
        spread = Text(
            f"{self._goal.spread(step.round):.1f}",
            style=_style(step, self._goal),
        )
        self._console.print(
            _row(str(step.round.round), spread, busiest, idlest, decided(step, self._goal))
        )
        for line in reasons(step, self._goal):
            self._print_beside(" " * _INDENT, line, style="dim")
        self._waiting_for, self._since = (
            f"Waiting for round {step.round.round + 1} …",
            time.monotonic(),
        )

    def end(self, result: Result, program: str) -> None:
        """Prints the final table, the result and its proof, the files and the next commands."""
        self._console.print()
        self._console.print(self._brokers())
        self._console.print()
        self._console.print(
            Text(result.sentence(), style="bold green" if result.balanced else "bold red"),
            soft_wrap=not self._console.is_terminal,
        )
        if result.proof():
            self.say([result.proof()])
        self._console.print()
        self.say(closing(result, program, Path.cwd()), wrap=False)

    def _print_beside(self, label: str, text: str, style: str) -> None:
        """Prints a label and its text: wrapped in a column of its own on a terminal, otherwise on
        one line, so that `grep` finds it.
        """
        if self._console.is_terminal:
            grid = Table.grid()
            grid.add_column(width=len(label))
            grid.add_column(style=style)
            grid.add_row(Text(label), Text(text))
            self._console.print(grid)
        else:
            self._console.print(Text(label + text), soft_wrap=True)

    def _picture(self) -> RenderableType:
        self._spinner.update(
            text=Text(f"{self._waiting_for} {time.monotonic() - self._since:.0f} s", style="dim")
        )
        return Group("", self._brokers(), self._spinner) if self._first else self._spinner

    def _brokers(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("broker", no_wrap=True)
        table.add_column("usage at the start", no_wrap=True)
        table.add_column("usage now", no_wrap=True)
        for broker, before in self._first.items():
            table.add_row(short(broker), _bar(before), _bar(self._now.get(broker, 0.0)))
        return table


def _style(step: RoundAnswer, goal: Goal) -> str:
    """The colour of a spread."""
    if goal.reached(step.round):
        return "green"
    return "red" if unjudged(step.round.skips) is None else "yellow"


def _row(*cells: str | Text, style: str = "") -> Table:
    """A row of number, spread, busiest broker, idlest broker and decision, in columns of fixed
    width.
    """
    grid = Table.grid(padding=(0, 2, 0, 0))
    for width in (5, 6, 16, 16):
        grid.add_column(width=width, no_wrap=True)
    grid.add_column()
    grid.add_row(*cells, style=style)
    return grid


def _bar(usage: float) -> Text:
    """`██████████ 50.0 %`"""
    filled = min(_BAR_WIDTH, max(0, round(usage * _BAR_WIDTH)))
    style = "red" if usage >= 0.8 else "yellow" if usage >= 0.65 else "green"
    bar = Text("█" * filled, style=style) + Text("░" * (_BAR_WIDTH - filled), style="dim")
    return bar + Text(f" {100 * usage:5.1f} %")
