"""How many bundles a new namespace has without a word about it, by Pulsar release."""

from collections.abc import Mapping
from typing import Any

from strategies.java.pulsar_versions_and_defaults import RELEASE_DEFAULTS
from strategies.ordered_sum import ordered_sum

#: The namespace of a scenario that names none.
UNNAMED = "public/simulated"
#: Release → what a namespace gets when it is created, and what the two of a new cluster get
#: (defaultNumberOfNamespaceBundles, defaultNumberOfSystemNamespaceBundles, cluster
#: initialisation).
_PLAIN: Mapping[Any, int] = RELEASE_DEFAULTS["defaultNumberOfNamespaceBundles"].values
_SYSTEM = RELEASE_DEFAULTS["defaultNumberOfSystemNamespaceBundles"].values
_OF_A_NEW_CLUSTER: Mapping[str, Mapping[str, int]] = {
    "4.2": {"public/default": 16, "pulsar/system": 16},
    "5.0": {"public/default": 32, "pulsar/system": _SYSTEM["5.0"]},
}


def default_bundles(release: str, namespace: str) -> int:
    """Bundles of a new namespace. Raises KeyError for a release that is not known."""
    return _OF_A_NEW_CLUSTER[release].get(namespace, _PLAIN[release])


def with_default_bundles(tree: Any) -> Any:
    """A scenario with `bundles = "RELEASE"`, with the numbers of bundles in its place. Raises
    ValueError.
    """
    if not isinstance(tree, Mapping) or not isinstance(tree.get("bundles"), str):
        return tree
    release, namespaces = tree["bundles"], tree.get("namespaces", [{"name": UNNAMED}])
    if release not in _PLAIN:
        known = " or ".join(f'"{one}"' for one in _PLAIN)
        raise ValueError(f"bundles: must be a whole number, or {known} for those of a release")
    if not _are_named(namespaces):
        return {**tree, "bundles": _PLAIN[release]}  # what is wrong with them is said elsewhere
    if any("share" in one for one in namespaces):
        raise ValueError(f'bundles = "{release}" gives each namespace its own; leave out share')
    shared = [{**one, "share": default_bundles(release, one["name"])} for one in namespaces]
    return {**tree, "namespaces": shared, "bundles": ordered_sum(one["share"] for one in shared)}


def _are_named(namespaces: Any) -> bool:
    return (
        isinstance(namespaces, list | tuple)
        and bool(namespaces)
        and all(isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in namespaces)
    )
