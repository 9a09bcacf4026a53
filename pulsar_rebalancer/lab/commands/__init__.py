"""The commands of the laboratory; `pulsar_rebalancer.cli.lazy` has their names."""
