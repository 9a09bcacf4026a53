"""What goes wrong in the life of a roll, drawn from a seed: settings, executors, reports, restarts,
processes and people.
"""

from dataclasses import dataclass, replace
from random import Random

from benchmarks.uncertified import UNCERTIFIED
from strategies.fold.engine import EngineSettings
from strategies.roll.roll_state_and_evidence import RollRules
from strategies.settings import DrainSettings, LimitSettings
from tests.properties.legal import EAGER, MODES
from tests.world.telemetry import T0

MINUTE_MS = 60_000
#: T0 of the telemetry builders is 1,795,000,000 s: a Wednesday, 11:06 UTC. Most lives begin in one
#: of these windows, some of them end outside.
_WINDOWS = ("", "", "", "11:00-12:00", "11:00-11:40, 12:00-12:20", "11:30-12:30")


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities per command, report, broker, round or look; the defaults: nothing goes wrong.

    `top`: brokers are of the extensible load manager and report this number of bundles, None: all;
    `notes`: the collector notes the others; `withdraws`: figures are withdrawn while bundles move;
    `late_rounds`: how late a late report or answer is; `never_back`: a restarted broker stays away;
    `slow_s`: longest time that a restart takes; `says_start`: brokers say since when they run;
    `doubles`: a person starts another process beside the first; `drops`: a process that dies takes
    the records of its last look with it; `again`: a person has a restart run once more.
    """

    top: int | None = None
    notes: bool = True
    withdraws: float = 0.0
    refuses: float = 0.0
    fails: float = 0.0
    silent: float = 0.0
    elsewhere: float = 0.0
    late: float = 0.0
    late_rounds: int = 2
    dry_runs: bool = False
    lost_report: float = 0.0
    late_report: float = 0.0
    repeated: float = 0.0
    job_restarts: float = 0.0
    process_dies: float = 0.0
    drops: float = 0.5
    doubles: float = 0.0
    never_back: float = 0.0
    slow_s: int = 60
    command_fails: float = 0.0
    says_start: bool = True
    broker_dies: float = 0.0
    undrains: float = 0.0
    drains: float = 0.0
    cancels: float = 0.0
    rival: float = 0.0
    again: float = 0.3


@dataclass(slots=True)
class ModelledBroker:
    """`goes_ms`: when a restart that was ordered begins; `back_ms`: when it is up again, None if it
    is up or stays away; `away_ms`: how long the restart takes, None: it stays away.
    """

    power: float
    started_ms: int = T0 - 3_600_000
    up: bool = True
    goes_ms: int | None = None
    away_ms: int | None = None
    back_ms: int | None = None


def drawn_faults(chance: Random) -> Faults:
    """No faults in a fifth of all lives, a few kinds of them in the others."""
    if chance.random() < 0.2:
        return Faults(job_restarts=0.3, slow_s=chance.choice((10, 60)))

    def maybe(*rates: float) -> float:
        """A rate that is 0 in three of four cases."""
        return chance.choice(rates) if chance.random() < 0.25 else 0.0

    return Faults(
        top=chance.choice((None, None, None, 1, 3)),
        notes=chance.random() < 0.9,
        withdraws=maybe(0.3, 1.0),
        refuses=maybe(0.2, 0.5),
        fails=maybe(0.1, 0.4),
        silent=maybe(0.1, 0.5, 1.0),
        elsewhere=maybe(0.1, 0.3),
        late=maybe(0.3, 1.0),
        late_rounds=chance.choice((1, 2, 4)),
        dry_runs=chance.random() < 0.05,
        lost_report=maybe(0.02, 0.1),
        late_report=maybe(0.02, 0.1),
        repeated=maybe(0.05, 0.3),
        job_restarts=maybe(0.1, 0.5),
        process_dies=maybe(0.02, 0.1),
        doubles=maybe(0.03, 0.1),
        never_back=maybe(0.1, 0.5),
        slow_s=chance.choice((10, 60, 300, 900)),
        command_fails=maybe(0.1),
        says_start=chance.random() < 0.8,
        broker_dies=maybe(0.002, 0.01),
        undrains=maybe(0.05),
        drains=maybe(0.05),
        cancels=maybe(0.01, 0.03),
        rival=maybe(0.05, 0.3),
    )


def drawn_settings(chance: Random) -> EngineSettings:
    """Every strategy in both modes, with limits or without. Certificates of SteadyShedder decide
    nothing and take time.
    """
    name = chance.choice(list(EAGER))
    limits = LimitSettings(
        excluded_namespaces=chance.choice(("", "", "", "", "", "t/apart")),
        moves_per_round=chance.choice((0, 0, 0, 1, 3)),
        moves_per_hour=chance.choice((0, 0, 0, 6, 20)),
        moved_mib_per_round=chance.choice((0.0, 0.0, 0.0, 20.0)),
        windows=chance.choice(_WINDOWS),
    )
    drains = DrainSettings(chance.choice((1, 2, 5, 10)), chance.choice((0.0, 0.0, 10.0)))
    return EngineSettings(
        name,
        chance.choice(MODES),
        EAGER[name] if chance.random() < 0.5 else None,
        limits=limits,
        drains=drains,
        placement=chance.choice(("auto", "auto", "none")),
        shedders=UNCERTIFIED,
    )


def drawn_rules(chance: Random) -> RollRules:
    rules = RollRules(even=chance.random() < 0.3, restart_timeout_ms=chance.choice((300_000,) * 3))
    return replace(rules, by_hand=chance.random() < 0.1)


def drawn_brokers(chance: Random) -> dict[str, ModelledBroker]:
    """Two to twelve brokers, mostly few."""
    number = min(chance.randint(2, 12), chance.randint(2, 12))
    return {f"b{at}:1": ModelledBroker(chance.choice((1.0, 1.0, 2.0))) for at in range(number)}
