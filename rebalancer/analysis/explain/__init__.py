"""Why a command was given, and why a broker, bundle or round was left alone, read off the COMMANDS and ROUNDS topics."""
