"""Options of the commands of the laboratory; `pulsar_rebalancer.cli.main` has their names."""
