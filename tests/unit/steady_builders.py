"""The builders of histories, which tests/world/steady.py has, under their former place."""

from tests.world.steady import LoadLevel, history_of, levels_of

__all__ = ["LoadLevel", "history_of", "levels_of"]
