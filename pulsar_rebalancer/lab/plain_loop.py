"""The job without Spark: telemetry records in, output rows out. Used by replays and back-tests;
Spark produces the same bytes.
"""

from collections import defaultdict

from sinks.wire.event_to_topic_rows import OutputRow, event_row, over_quota_row, rejected_row
from sinks.wire.record_decoding import (
    DEFAULT_LIMITS,
    Position,
    WireLimits,
    clip,
    cluster_of,
    decode,
    pack_origin,
    peek,
)
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.quota import UnreadRecord
from strategies.errors import WireError
from strategies.fold.engine import Engine, EngineSettings


class PlainLoop:
    """Folds telemetry of any number of clusters, one store per cluster. Raises SettingsError for
    invalid settings.
    """

    def __init__(
        self,
        settings: EngineSettings,
        limits: WireLimits = DEFAULT_LIMITS,
        intents_key: SigningKey | None = None,
    ) -> None:
        self._engine = Engine(settings)
        self._limits = limits
        #: Intents must be signed with it; None = unchecked.
        self.intents_key = intents_key
        self._stores: defaultdict[str, InMemoryStore] = defaultdict(InMemoryStore)

    def feed(self, position: Position, value: bytes, size: int | None = None) -> list[OutputRow]:
        """The rows that follow from one record. `size`: bytes of the whole record, if `value` holds
        only its beginning.
        """
        size = len(value) if size is None else size
        value = clip(value, self._limits)
        cluster, ts, has_quota = peek(value)
        rows: list[OutputRow] = []
        if has_quota:
            arrival = UnreadRecord(ts, len(value), position)
            admitted, earlier = self._engine.admits(arrival, self._stores[cluster])
            if earlier is not None:
                rows.append(over_quota_row(earlier, cluster))
            if not admitted:
                return rows
        return rows + self._folded(position, value, size, cluster)

    def _folded(self, position: Position, value: bytes, size: int, cluster: str) -> list[OutputRow]:
        origin = pack_origin(position, value, size)
        try:
            record = decode(value, origin, self._limits, self.intents_key, cluster=cluster)
        except WireError as error:
            return [rejected_row(error, origin, cluster_of(value))]
        return [event_row(event) for event in self._engine.fold(record, self._stores[cluster])]
