"""Filters of candidate brokers: what the rules allow, and what fixed mode does about their defects.
Policies from a snapshot: whatever is wrong with them becomes a sentence and never an exception.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.filters.anti_affinity import (
    group_members,
    java_may_leave,
    may_leave,
    more_crowded,
)
from strategies.filters.filter_input_and_result import FilteredBundle
from strategies.filters.isolation import isolated
from strategies.filters.policies import BrokerFacts, PoliciesView, read_policies
from strategies.java.pulsar_versions_and_defaults import version_key
from tests.world.placement import filters, fleet, policies, policy


def counts(b1: int, b2: int, b3: int) -> dict[str, int]:
    return {"b1": b1, "b2": b2, "b3": b3}


class TestIsolation:
    def test_a_secondary_learns_of_how_many_primaries_there_are(self) -> None:
        enough = policies(policy("gold", ["t/gold"], ["p1", "p2"], ["s1"], min_limit=1))
        (refusal,) = isolated(enough, "t/gold", ["p1:8080", "s1:8080"]).values()
        assert refusal.code == "isolation-standby"
        assert "which has 1 primary brokers and needs 1" in refusal.text

    def test_a_broker_is_matched_without_its_port(self) -> None:
        assert not isolated(policies(policy("a", ["t/ns"], ["::1"])), "t/ns", ["::1:8080"])
        assert isolated(policies(policy("a", ["t/ns"], ["::1:8080"])), "t/ns", ["::1:8080"])


class TestAntiAffinity:
    def test_a_broker_that_may_keep_nothing_itself_still_serves_what_it_serves(self) -> None:
        """Java counts nothing for a present broker that is no candidate, and keeps the bundle."""
        assert may_leave("b1", ("b2", "b3"), counts(2, 1, 1))
        assert not java_may_leave("b1", ("b2", "b3"), counts(2, 1, 1))

    def test_groups_are_compared_without_case(self) -> None:
        assert group_members({"t/a": "G", "t/b": "g", "t/c": "other"}, "t/b") == ("t/a", "t/b")
        assert group_members({"t/a": ""}, "t/a") == ()

    def test_a_move_must_not_crowd_the_group(self) -> None:
        """Java lets a broker with one namespace of the group pass it to one that then has two."""
        assert set(more_crowded(("b2", "b3"), counts(1, 1, 0), "b1", lambda _: False)) == {"b2"}
        assert not more_crowded(("b2",), counts(1, 1, 0), "b1", lambda _: True)

    def test_modular_counts_namespaces_and_extensible_bundles(self) -> None:
        grouped = policies(groups={"t/a": "g", "t/b": "g"})
        seen = fleet(grouped, served={"b1": {"t/a": 5}, "b2": {"t/a": 1, "t/b": 1}})
        modular = filters("parity", distribute_evenly=False)
        extensible = filters("parity", load_manager="extensible")
        for java, brokers in ((modular, ("b1",)), (extensible, ("b2",))):
            found = java.allowed(FilteredBundle("t/b/0x0_0x1"), ["b1", "b2"], seen)
            assert found.brokers == brokers


def test_fixed_counts_the_topics_of_the_bundle() -> None:
    seen = fleet(topics={"b1": 95, "b2": 96})
    allowed = filters(max_topics=100).allowed(
        FilteredBundle("t/ns/0x0_0x1", topics=5), ["b1", "b2"], seen
    )
    assert allowed.brokers == ("b1",)
    assert "101 topics, filters.max_topics = 100 are" in allowed.refused["b2"].text


def test_a_release_is_newer_than_its_candidates() -> None:
    mixed = ["4.10.0", "4.2.0", "4.2.0-rc.11", "4.2.0-rc.2", "4.1.9", "4.2.1", "4.2.0-SNAPSHOT"]
    keys = {version: key for version in mixed if (key := version_key(version)) is not None}
    ordered = "4.1.9 4.2.0-SNAPSHOT 4.2.0-rc.2 4.2.0-rc.11 4.2.0 4.2.1 4.10.0"
    assert sorted(keys, key=keys.__getitem__) == ordered.split()
    assert version_key("4.2.0+build") == version_key("4.2.0")


class TestAllFilters:
    SUBJECT = FilteredBundle("t/ns/0x0_0x1", "b1:1")
    LIVE = ("b1:1", "b2:1", "b3:1")

    def test_fixed_says_why_for_every_broker_that_is_left_out(self) -> None:
        known = policies(
            policy("p", ["other/.*"], ["b3"]),
            brokers={
                "b2:1": BrokerFacts(draining=True),
                "b4:1": BrokerFacts(load_manager="SimpleLoadManager"),
            },
        )
        allowed = filters().allowed(
            self.SUBJECT, (*self.LIVE, "b4:1", "b5:1", "b6:1"), fleet(known, settling=["b5:1"])
        )
        assert allowed.brokers == ("b6:1",)
        found = " ".join(f"{name[:2]} {one.code}" for name, one in sorted(allowed.refused.items()))
        assert found == (
            "b1 source b2 draining b3 isolation-reserved b4 other-load-manager b5 settling"
        )
        counts = "1 draining, 1 isolation-reserved, 1 other-load-manager, 1 settling, 1 source"
        assert allowed.summary() == counts

    def test_java_goes_back_to_what_policies_allow_when_a_filter_fails(self) -> None:
        known = policies(
            policy("p", ["t/ns"], ["b1", "b2"]), brokers={"b1:1": BrokerFacts("4.2.4")}
        )
        java = filters("parity", prefer_later_versions=True)
        # One candidate with a version is no reason to give up.
        for serving, brokers in (("b2:1", ("b1:1",)), ("b1:1", ("b1:1", "b2:1"))):
            seen = fleet(known, served={serving: {"t/ns": 3}})
            assert java.allowed(self.SUBJECT, self.LIVE, seen).brokers == brokers

    def test_a_bundle_without_another_broker_must_stay(self) -> None:
        known = policies(policy("p", ["t/ns"], ["b1"]))
        stays = filters("parity").must_stay(self.SUBJECT, self.LIVE, fleet(known))
        assert stays is not None
        assert stays.code == "no-broker-by-policy"

    def test_a_bundle_that_would_have_to_come_back_must_stay(self) -> None:
        known = policies(groups={"t/ns": "g", "t/b": "g", "t/c": "g"})
        served = {"b1:1": {"t/ns": 1}, "b2:1": {"t/b": 1}, "b3:1": {"t/c": 1}}
        java = filters("parity")
        stays = java.must_stay(self.SUBJECT, self.LIVE, fleet(known, served=served))
        assert stays is not None
        assert stays.code == "anti-affinity-even"
        alone = fleet(known, served={"b1:1": {"t/ns": 1}})
        assert java.must_stay(self.SUBJECT, self.LIVE, alone) is None


def read(**parts: object) -> PoliciesView:
    return read_policies(json.dumps(parts))


def test_no_snapshot_is_no_policies() -> None:
    assert read_policies(None) == PoliciesView()
    assert read_policies("{}") == PoliciesView()


def test_every_part_is_understood() -> None:
    view = read(
        isolation=[policy("gold", ["t/.*"], ["b1"], ["b2"], min_limit=2)],
        anti_affinity={"t/a": "g"},
        failure_domains={"d1": {"brokers": ["b1:8080", "http://b2:8080/"]}, "d2": ["b3:8080"]},
        topic_counts={"t/a/0x0_0x1": 3},
        brokers={"b1:8080": {"version": "4.2.4", "draining": True, "anything": "else"}},
    )
    (gold,) = view.isolation
    assert (gold.name, gold.min_limit, gold.fault) == ("gold", 2, None)
    assert view.groups == {"t/a": "g"}
    assert view.domains == {"b1:8080": "d1", "b2:8080": "d1", "b3:8080": "d2"}
    assert view.topics == {"t/a/0x0_0x1": 3}
    assert view.brokers == {"b1:8080": BrokerFacts("4.2.4", draining=True)}
    assert view.complaints == ()


def test_isolation_may_be_an_object_as_the_admin_api_has_it() -> None:
    view = read(isolation={"b": policy("", ["x"], ["y"]), "a": policy("", ["x"], ["z"])})
    assert [one.name for one in view.isolation] == ["b", "a"]


@pytest.mark.parametrize("snapshot", ["", "[]", "3", "{", '"x"', "null", "[" * 100_000])
def test_a_snapshot_that_cannot_be_read_allows_no_move(snapshot: str) -> None:
    view = read_policies(snapshot)
    assert len(view.complaints) == 1
    assert set(isolated(view, "t/ns", ["b1:1"])) == {"b1:1"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("patterns", "what"),
    [
        (["a"] * 300, "5000 patterns"),
        pytest.param(["a" * 3_000] * 10, "500000 characters in patterns", marks=pytest.mark.heavy),
        (["(a?){900}b"], "20000 states in patterns"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_patterns_of_all_policies_together_have_a_bound(patterns: list[str], what: str) -> None:
    """Together they would take minutes. None is followed in part: no bundle may go anywhere."""
    many = [policy(f"p{number}", patterns, ["b1"]) for number in range(60)]
    assert read_policies(json.dumps({"isolation": many[:8]})).complaints == ()
    view = read_policies(json.dumps({"isolation": many}))
    assert f"all policies together have more than {what}" in view.complaints[0]
    assert view.isolation[-1].name == "*"
    assert set(isolated(view, "other/ns", ["b1:1"])) == {"b1:1"}


PARTS = ["isolation", "anti_affinity", "failure_domains", "topic_counts", "brokers"]
texts = st.sampled_from(["", "t/ns", "b:1", "(", ".*"])
keys = st.sampled_from(["a", "t/ns", "brokers", "namespaces", "primary"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.heavy
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(PARTS), json_values))
def test_nothing_in_a_snapshot_raises(parts: dict[str, object]) -> None:
    view = read_policies(json.dumps(parts))
    isolated(view, "t/ns", ["b:1"])
    assert all(said.startswith(("policies.", "policies: ")) for said in view.complaints)
