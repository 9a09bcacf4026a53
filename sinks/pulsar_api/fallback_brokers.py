"""Which brokers are asked, and in which order: the configured ones, and others of the cluster's
list where these fail.

Calls that any broker answers go to the configured addresses, then to the brokers in the cluster's
newest list. The token is sent to all of them, so the list contains only brokers that the cluster
itself listed while this process runs, with the scheme of `pulsar.admin_urls`.
"""

import threading
from collections.abc import Callable, Iterable

from sinks.pulsar_api.connection_tls_and_token import AdminUrl, PulsarSettings, admin_urls, base_of

#: Number of listed brokers that one call asks at most; the next call asks others.
MOST_FALLBACKS = 8


class KnownBrokers:
    """Addresses of a cluster's brokers. Thread-safe."""

    def __init__(
        self, settings: PulsarSettings, log: Callable[[str], None] = lambda _: None
    ) -> None:
        """Raises SettingsError. `log`: gets the reason when a listed broker has to help."""
        self._settings, self._log = settings, log
        self._urls = self._order = admin_urls(settings)
        self._changing = threading.Lock()
        #: True once a broker has answered in place of the configured ones, which is logged once.
        self._has_helped = False

    def bases(self) -> tuple[AdminUrl, ...]:
        """Addresses in the order to ask them; those that failed last come last."""
        left_out = frozenset([*filter(self.is_fallback, self._order)][MOST_FALLBACKS:])
        return tuple(base for base in self._order if base not in left_out)

    def is_fallback(self, base: AdminUrl) -> bool:
        """True if the address comes from the cluster's list and not from the settings."""
        return base not in self._urls

    def helped(self, base: AdminUrl, failed: Exception | None) -> None:
        """Records that a broker answered after another failed; reports the first time that an
        address of the cluster's list had to help.
        """
        if self._has_helped or failed is None or not self.is_fallback(base):
            return
        self._has_helped = True
        self._log(
            f"{failed} Until it does, {base} and other brokers of the cluster's list are asked."
        )

    def failed(self, base: AdminUrl) -> None:
        """Moves an address to the end of the order."""
        with self._changing:
            if base in self._order:
                self._order = (*(one for one in self._order if one != base), base)

    def learn(self, brokers: Iterable[str]) -> None:
        """Takes the cluster's list. Ignores an empty one: the broker that sent it is missing in
        it.
        """
        listed = dict.fromkeys(
            base_of(name, self._urls, self._settings) for name in sorted(brokers)
        )
        if not listed:
            return
        with self._changing:
            kept = [base for base in self._order if base in listed or base in self._urls]
            self._order = tuple(dict.fromkeys([*kept, *listed]))
