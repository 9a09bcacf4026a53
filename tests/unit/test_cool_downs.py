"""Which bundles rest after they were moved, and for how long."""

from strategies.cluster import cool_downs
from strategies.cluster.cluster_state import ClusterState
from strategies.cluster.rival_state import ForeignMove, Rivals


def test_an_outcome_after_all_resumes_the_rest() -> None:
    assert cool_downs.resume({"other": 2}, "one", 1) == {"other": 2, "one": 1}
    assert cool_downs.resume({"one": 7}, "one", 1) == {"one": 7}, "a newer command counts"


def test_foreign_moves_count_beside_commands_which_count_first() -> None:
    foreign = Rivals(moves=tuple(ForeignMove(one, "a:1", "b:1", 50) for one in ("both", "theirs")))
    state = ClusterState(cooling={"both": 20, "ours": 30}, rivals=foreign)
    assert cool_downs.of_all_moves(state, 100, 60) == {"both": 20, "theirs": 50, "ours": 30}
    assert cool_downs.of_all_moves(state, 111, 60) == {"both": 20, "ours": 30}


def test_a_bundle_with_a_command_under_way_rests_however_short_the_cool_down_is() -> None:
    assert cool_downs.bundles_at_rest({"cooling"}, {"moving"}, {}) == {"cooling", "moving"}
