"""Input and result of the filters, and the brokers that are left between them."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from strategies.bundles import namespace_of
from strategies.filters.anti_affinity import Counts
from strategies.filters.policies import PoliciesView
from strategies.states_and_advice_of_codes import Refusals


@dataclass(frozen=True)
class FilterFacts:
    """Input of filters besides policies.

    `served`: broker → namespace → number of bundles; `topics`: broker → topics; `arriving`: broker
    → topics of bundles on their way that `topics` does not count. All three are evaluated only
    where a filter needs them. `count_bundles(namespace, broker)`: one number of `served`, where a
    lower cost is possible. `settling`: brokers that must not take part yet.
    """

    policies: PoliciesView
    served: Callable[[str], Counts]
    topics: Callable[[str], int]
    count_bundles: Callable[[str, str], int]
    arriving: Callable[[str], int] = lambda _: 0
    settling: Collection[str] = ()

    def bundle_counts(self, namespace: str, brokers: Iterable[str]) -> dict[str, int]:
        """Broker → number of its bundles of a namespace."""
        return {broker: self.count_bundles(namespace, broker) for broker in brokers}


@dataclass(frozen=True, slots=True)
class FilteredBundle:
    """The bundle to place. `source`: its present broker; `topics`: number of its topics;
    `exchanged_with`: brokers that give a bundle of the namespace for it.
    """

    bundle: str
    source: str | None = None
    topics: int = 0
    exchanged_with: Collection[str] = ()

    @property
    def namespace(self) -> str:
        return namespace_of(self.bundle)


@dataclass(frozen=True, slots=True)
class Allowed:
    """`brokers` that may take the bundle, in the given order; the others in `refused`. `by_policy`:
    those that isolation allows.
    """

    brokers: tuple[str, ...]
    refused: Refusals
    by_policy: tuple[str, ...]

    def summary(self) -> str:
        """Number of refused brokers per reason, as in `2 uneven, 1 isolation-outside`."""
        codes = [refusal.code for refusal in self.refused.values()]
        return (
            ", ".join(f"{codes.count(code)} {code}" for code in sorted(set(codes)))
            or "no broker is there"
        )


def remaining(brokers: Iterable[str], refused: Refusals) -> tuple[str, ...]:
    """The brokers that are not refused, in the given order."""
    return (
        tuple(broker for broker in brokers if broker not in refused) if refused else tuple(brokers)
    )
