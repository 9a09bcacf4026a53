"""`python -m pulsar_rebalancer`: the command line."""

from pulsar_rebalancer.cli.main import main

if __name__ == "__main__":
    main()
