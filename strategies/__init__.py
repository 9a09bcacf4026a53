"""Pure decisions: what should move, and why. Standard library and numpy only."""
