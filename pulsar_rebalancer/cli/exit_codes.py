"""Exit codes of `rebalancer`; scripts may rely on them."""

OK = 0
ERROR = 1
SETTINGS = 2
IMBALANCED = 3
DIFFERENT = 5
#: A command has shown what it would do, and got no yes: it has asked for nothing.
NOT_ASKED = 6
INTERRUPTED = 130
#: SIGTERM ended a command that was to wait for a result. Services exit with OK.
TERMINATED = 143
