"""The command line `rebalancer`: arguments in, tables and JSON out; the work is done by the packages below."""
