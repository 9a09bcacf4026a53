"""Random requests to cut a bundle, for property tests: topics and positions in its corners too."""

from hypothesis import strategies as st

from pulsar_rebalancer.lab.conformance.split_algorithms import SplitRequest, TopicFlow
from strategies.bundles import FULL, KeyRange
from strategies.splitting.bundle_limits import Algorithm, SplitSettings
from tests.world.splits import topic_of

edges = st.integers(0, FULL) | st.sampled_from([0, 1, 2, FULL - 1, FULL, 2**31])
ranges = (
    st.tuples(edges, edges).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: KeyRange(*pair))
)
algorithms: st.SearchStrategy[Algorithm] = st.sampled_from(
    [
        "range_equally_divide",
        "topic_count_equally_divide",
        "specified_positions_divide",
        "flow_or_qps_equally_divide",
    ]
)
rates = st.sampled_from([0.0, 1.0, 40.0, 60.0, 100.0, 110.0]) | st.floats(0, 1e12)


@st.composite
def requests(draw: st.DrawFn) -> SplitRequest:
    bundle = draw(ranges)
    inside = st.integers(bundle.lower, min(bundle.upper, bundle.lower + 20)) | st.integers(
        bundle.lower, bundle.upper
    )
    topics = [
        topic_of(draw(inside), f"persistent://t/ns/{number}-")
        for number in range(draw(st.integers(0, 6)))
    ]
    flows = {topic: TopicFlow(draw(rates), draw(rates)) for topic in topics if draw(st.booleans())}
    positions = draw(st.lists(inside | edges, max_size=5))
    limits = SplitSettings(
        max_msg_rate=draw(st.sampled_from([0, 100, 30_000])),
        max_bandwidth_mib=draw(st.sampled_from([0, 1, 100])),
        difference_percent=draw(st.sampled_from([0, 10])),
    )
    return SplitRequest(
        bundle, draw(st.none() | st.just(topics)), flows, positions, draw(st.booleans()), limits
    )
