"""Policies from a snapshot: what is understood, and that whatever is wrong becomes a sentence and
never an exception.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.filters.isolation import isolated
from strategies.filters.policies import BrokerFacts, PoliciesView, read_policies
from tests.world.placement import policy


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
    """Each policy by itself is fine; together they would take minutes. None is followed in part: no
    bundle may go anywhere.
    """
    many = [policy(f"p{number}", patterns, ["b1"]) for number in range(60)]
    assert read_policies(json.dumps({"isolation": many[:8]})).complaints == ()
    view = read_policies(json.dumps({"isolation": many}))
    assert f"all policies together have more than {what}" in view.complaints[0]
    assert view.isolation[-1].name == "*"
    assert set(isolated(view, "other/ns", ["b1:1"])) == {"b1:1"}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "t/ns", "b:1", "(", ".*"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "t/ns", "brokers", "namespaces", "primary"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@pytest.mark.heavy
@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["isolation", "anti_affinity", "failure_domains", "topic_counts", "brokers"]
        ),
        json_values,
    )
)
def test_nothing_in_a_snapshot_raises(parts: dict[str, object]) -> None:
    view = read_policies(json.dumps(parts))
    isolated(view, "t/ns", ["b:1"])
    assert all(said.startswith(("policies.", "policies: ")) for said in view.complaints)
