"""A quick copy is what `dataclasses.replace` makes."""

from dataclasses import FrozenInstanceError, replace

import pytest

from strategies.cluster.cluster_state import ClusterState, quick_replace
from strategies.cluster.rival_state import Rivals


def test_it_equals_the_copy_of_the_standard_library_and_cannot_be_changed() -> None:
    state, rivals = ClusterState(round=7), Rivals(again=2)
    assert quick_replace(state, rivals=rivals, sweep=3) == replace(state, rivals=rivals, sweep=3)
    assert quick_replace(rivals, pass_ms=9) == replace(rivals, pass_ms=9)
    assert (state, rivals) == (ClusterState(round=7), Rivals(again=2))
    copy = quick_replace(quick_replace(ClusterState(), round=1), sweep=2)
    assert copy == ClusterState(round=1, sweep=2)
    with pytest.raises(FrozenInstanceError):
        copy.round = 3  # type: ignore[misc]


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="ClusterState has no field rounds"):
        quick_replace(ClusterState(), rounds=1)
