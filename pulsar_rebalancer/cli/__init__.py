"""The command line `rebalancer`: commands of the services, options, tables and exit codes."""
