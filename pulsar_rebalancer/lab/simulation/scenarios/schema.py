"""The format of scenario files: machines, brokers, traffic, initial state, happenings, and
published results.
"""

import json
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pulsar_rebalancer.lab.simulation.scenarios.default_bundles import UNNAMED, with_default_bundles
from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import (
    BrokerDispatch,
    Disturbances,
    Minute,
    Noise,
    NotNegative,
    Positive,
    StrictModel,
    TopicDispatch,
    Wave,
    Whole,
)
from pulsar_rebalancer.lab.simulation.segments import Segments
from strategies.filters.filter_input_and_result import remaining
from strategies.filters.isolation import isolated
from strategies.filters.policies import read_policies
from strategies.shedding.registry import DEFAULT

#: A figure, or two bounds between which one is drawn per seed.
Drawn = Positive | tuple[Positive, Positive]
#: The property of a strategy that a scenario measures, named as in the published ratings.
Property = Literal["heterogeneity", "stability", "over-placement", "over-unloading"]


class Machine(StrictModel):
    """Capacity of a machine and the cost of traffic on it. CPU in percent of the whole machine
    (idle) and of one core (limit, costs).
    """

    cores: Positive = 16
    cpu_idle: Annotated[float, Field(ge=0, lt=100)] = 5
    cpu_per_kmsg: NotNegative = 0
    cpu_per_mib: NotNegative = 0
    network_gbit: Positive = 10
    direct_memory_mib: Positive = 8192
    direct_memory_idle: NotNegative = 256
    direct_memory_per_mib: NotNegative = 2


class Brokers(StrictModel):
    """Brokers of one kind, by name or by number. `joins`: the minute at which they join.

    `dispatch`: limits on what they send out; `dispatch_mib = 100` is short for `dispatch = { broker
    = { mib = 100 } }`.
    """

    machine: str
    names: tuple[Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")], ...] = ()
    count: Annotated[int, Field(ge=0, le=10_000)] = 0
    joins: Minute | None = None
    dispatch_mib: Annotated[float, Field(ge=1e-6, le=1e9)] | None = None
    dispatch: BrokerDispatch = BrokerDispatch()

    @model_validator(mode="after")
    def _some(self) -> Self:
        if bool(self.names) == bool(self.count):
            raise ValueError(
                "give the brokers' names (names = [...]) or their number (count = ...), one "
                "of the two"
            )
        if self.dispatch_mib is not None and self.dispatch.broker is not None:
            raise ValueError(
                "dispatch_mib and dispatch.broker limit the same; leave out one of the two"
            )
        return self


class Namespace(StrictModel):
    """A namespace, its share of all bundles, and the dispatch limits of its policies. Each entry of
    `traffic` belongs to one.
    """

    name: Annotated[str, Field(pattern=r"^[-=:.\w]+(/[-=:.\w]+){1,2}$")]
    share: Positive = 1
    dispatch: TopicDispatch = TopicDispatch()


class ScenarioTraffic(StrictModel):
    """Topics of one kind. Their partitions are spread over the bundles of their namespace at
    random, or evenly (`even`).

    `fan_out`: number of times each message is read, by one subscription each, the last one in part.
    `dispatch`: limits of topic policies. `segments`: these are scalable topics, without partitions.
    """

    name: str
    namespace: str | None = None
    mib_in: Drawn
    message_bytes: Drawn = 1024
    fan_out: NotNegative = 1
    partitions: Whole | tuple[Whole, Whole] = 32
    even: bool = False
    #: Ratio of the largest partition's traffic to the smallest one's; of scalable topics, between
    #: 64 equal parts of the hashes of their keys.
    skew: Annotated[float, Field(ge=1)] = 1
    wave: Wave | None = None
    consumers: Wave | None = None
    dispatch: TopicDispatch = TopicDispatch()
    segments: Segments | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.segments is not None and (self.even or "partitions" in self.model_fields_set):
            raise ValueError("scalable topics have segments; leave out partitions and even")
        return self


class Start(StrictModel):
    """Initial owners: a random broker per bundle (`random`), the same number per broker (`even`),
    or given shares of traffic or usage.
    """

    deal: Literal["random", "even", "traffic", "usage"] = "even"
    shares: tuple[NotNegative, ...] = ()

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if (self.deal in ("traffic", "usage")) != bool(self.shares):
            raise ValueError(
                'shares = [...] is allowed with deal = "traffic" and deal = "usage" only, one '
                "figure per broker"
            )
        return self


class Happening(StrictModel):
    """An event at a given minute. `points`, `minutes`: foreign load on brokers (`load`).

    `drain`, `undrain`, `roll`: records of an operator; several brokers are drained together. Of a
    roll, `brokers` may be left out: all; `minutes`: how long a broker is away when it restarts.
    """

    minute: Minute
    kind: Literal["leave", "kill", "join", "load", "drain", "undrain", "roll"]
    brokers: tuple[str, ...] = ()
    points: float = 0
    minutes: NotNegative = 1
    max_unavailable: Whole | None = None

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not self.brokers and self.kind != "roll":
            raise ValueError(
                "brokers = [...] is missing; only a roll may leave it out: all brokers"
            )
        if self.max_unavailable is not None and self.kind != "roll":
            raise ValueError('max_unavailable = ... is allowed with kind = "roll" only')
        return self


class Strategy(StrictModel):
    """The default strategy; the command line may name others."""

    name: str = DEFAULT
    mode: Literal["fixed", "parity"] = "fixed"
    placement: str = "auto"


class Published(StrictModel):
    """A published figure: printed [P], read off a chart [C], derived [D]. `chosen_by`: whether
    parameters were fitted to it.
    """

    figure: str
    value: float
    kind: Literal["P", "C", "D"]
    tolerance: NotNegative = 0
    headline: bool = False
    chosen_by: bool = False


class Parameters(StrictModel):
    """Parameters that several scenarios share, in a file of `parameters/`: machines, message sizes,
    noise, settings of the rebalancer.
    """

    machines: dict[str, Machine] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    noise: Noise = Noise()
    placed_at_lookup: bool = False
    traffic: dict[str, dict[str, Any]] = Field(default_factory=dict)


class Scenario(StrictModel):
    """One scenario file."""

    title: Annotated[str, Field(min_length=1)]
    minutes: Annotated[int, Field(ge=2, le=527_040)]
    #: Number of all bundles, or the Pulsar release ("4.2", "5.0") whose new namespaces these are.
    bundles: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    parameters: str | None = None
    machines: dict[str, Machine] = Field(default_factory=dict)
    noise: Noise = Noise()
    disturbances: Disturbances = Disturbances()
    brokers: Annotated[tuple[Brokers, ...], Field(min_length=1)]
    #: Namespaces divide all bundles among themselves, in the order of the file.
    namespaces: Annotated[tuple[Namespace, ...], Field(min_length=1)] = (Namespace(name=UNNAMED),)
    traffic: Annotated[tuple[ScenarioTraffic, ...], Field(min_length=1)]
    start: Start = Start()
    happenings: tuple[Happening, ...] = ()
    #: Pulsar's leader reads reports that brokers write after enough change (`written`); our
    #: collector requests them (`asked`). `auto`: `written` in parity mode, `asked` in fixed mode.
    reports: Literal["auto", "asked", "written"] = "auto"
    #: In parity mode, bundles are unloaded without a destination, and the leader places them when
    #: clients look them up, possibly on their source: Pulsar before 2.10.6, 2.11.3, 3.0.1 (#20822).
    placed_at_lookup: bool = False
    strategy: Strategy = Strategy()
    settings: dict[str, Any] = Field(default_factory=dict)
    #: Factor by which consumers read faster than usual while there is a backlog.
    catch_up: Annotated[float, Field(ge=1)] = 2
    #: Pulsar's implementation of dispatch limits (dispatchRateLimiterFactoryClassName).
    dispatch_limiter: Literal["token_bucket", "classic"] = "token_bucket"
    #: Spread of usage, in points, that counts as balanced.
    target_points: Positive = 10
    #: First minute that counts in the figures.
    from_minute: Minute = 0
    #: Load is never lastingly uneven: every unload is a false one.
    calm: bool = False
    #: Isolation policies, anti-affinity groups and the like, as collectors publish them. Initial
    #: owners respect isolation.
    policies: dict[str, Any] = Field(default_factory=dict)
    #: Properties that this scenario rates.
    rates: tuple[Property, ...] = ()
    card: str | None = None
    published: tuple[Published, ...] = ()
    notes: str = ""

    @model_validator(mode="before")
    @classmethod
    def _bundles_of_a_release(cls, tree: Any) -> Any:
        return with_default_bundles(tree)

    @property
    def broker_names(self) -> tuple[str, ...]:
        """Names of all brokers in the order of the file."""
        return tuple(name for group in self.names_of_groups for name in group)

    @property
    def names_of_groups(self) -> tuple[tuple[str, ...], ...]:
        """The names of each entry of `brokers`; brokers without names are numbered across
        entries.
        """
        groups, count = list[tuple[str, ...]](), 0
        for group in self.brokers:
            names = group.names or tuple(
                f"broker-{count + number + 1}" for number in range(group.count)
            )
            groups.append(names)
            count += len(names)
        return tuple(groups)

    @property
    def places(self) -> dict[str, range]:
        """Namespace → range of its bundle numbers."""
        sums = [0.0, *accumulate(namespace.share for namespace in self.namespaces)]
        edges = [*(int(self.bundles * part / sums[-1]) for part in sums[:-1]), self.bundles]
        return {
            namespace.name: range(*pair)
            for namespace, pair in zip(self.namespaces, pairwise(edges), strict=True)
        }

    def namespace_of(self, traffic: ScenarioTraffic) -> str:
        """The namespace of these topics: the stated one, otherwise the only one."""
        return traffic.namespace or self.namespaces[0].name

    def allowed_at_first(self, namespace: str) -> tuple[str, ...]:
        """The brokers of minute 0 on which the isolation policies allow a namespace."""
        there = [
            name
            for group, names in zip(self.brokers, self.names_of_groups, strict=True)
            if not group.joins
            for name in names
        ]
        return remaining(
            there, isolated(read_policies(json.dumps(self.policies)), namespace, there)
        )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        complaints = [
            *read_policies(json.dumps(self.policies)).complaints,
            *self._about_namespaces(),
            *self._about_brokers(),
            *self._about_start(),
        ]
        homeless = (
            []
            if complaints
            else [namespace for namespace in self.places if not self.allowed_at_first(namespace)]
        )
        if homeless:
            complaints.append(
                f"policies: at minute 0 no broker may serve {', '.join(homeless)}; let a "
                "policy name a present broker"
            )
        if complaints:
            raise ValueError("\n".join(complaints))
        return self

    def _about_namespaces(self) -> Iterator[str]:
        """Checks that every flow is in a namespace with bundles."""
        places = self.places
        if len(places) != len(self.namespaces):
            yield "namespaces: two have the same name"
        for number, flow in enumerate(self.traffic, 1):
            if flow.namespace is None and len(places) > 1:
                yield f"traffic[{number}]: namespace is missing, one of {', '.join(places)}"
            elif self.namespace_of(flow) not in places:
                yield (
                    f"traffic[{number}]: no namespace {flow.namespace!r}; known: "
                    f"{', '.join(places)}"
                )
        for namespace, rows in places.items():
            if not rows:
                yield (
                    f"namespaces: {self.bundles} bundles leave none for {namespace}; raise "
                    "bundles or its share"
                )

    def _about_brokers(self) -> Iterator[str]:
        names = self.broker_names
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"brokers: two have the name {name}"
        for machine in dict.fromkeys(
            group.machine for group in self.brokers if group.machine not in self.machines
        ):
            yield (
                f"brokers: no machine {machine!r}; known: "
                f"{', '.join(sorted(self.machines)) or 'none'}"
            )
        unknown = sorted(
            {name for happening in self.happenings for name in happening.brokers} - set(names)
        )
        if unknown:
            yield (
                f"happenings: no broker {', '.join(unknown)}; known: "
                f"{', '.join(names[:12])}{' …' if len(names) > 12 else ''}"
            )

    def _about_start(self) -> Iterator[str]:
        machines = [
            self.machines.get(group.machine)
            for group in self.brokers
            if not group.joins
            for _ in group.names or range(group.count)
        ]
        shares = self.start.shares
        if not machines:
            yield "brokers: at least one must be present at minute 0"
        elif shares and len(shares) != len(machines):
            yield f"start.shares: {len(shares)} figures for {len(machines)} brokers"
        elif shares and not any(shares):
            yield "start.shares: at least one must be more than 0"
        elif self.start.deal == "usage":
            known = [
                (share, machine)
                for share, machine in zip(shares, machines, strict=True)
                if machine is not None
            ]
            if any(machine.cpu_per_kmsg + machine.cpu_per_mib == 0 for _, machine in known):
                yield (
                    'start: deal = "usage" needs traffic that costs CPU; give each machine '
                    "cpu_per_kmsg or cpu_per_mib"
                )
            elif known and all(share <= machine.cpu_idle for share, machine in known):
                yield (
                    "start.shares: usage in percent; at least one must be above the cpu_idle of "
                    "its broker's machine"
                )
