"""Explains commands, rounds, brokers and bundles from the records of COMMANDS and ROUNDS."""
