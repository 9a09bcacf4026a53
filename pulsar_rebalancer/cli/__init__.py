"""The command line `rebalancer`: commands, options, tables and exit codes; the only package that
uses typer and rich.
"""
