"""`python -m pulsar_rebalancer`: the command line."""

from __future__ import annotations

from pulsar_rebalancer.cli.main import main

if __name__ == "__main__":
    main()
