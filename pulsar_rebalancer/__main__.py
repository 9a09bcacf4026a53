"""`python -m rebalancer`: the command line."""

from __future__ import annotations

from rebalancer.cli.main import main

if __name__ == "__main__":
    main()
