"""Bundle splits: when a bundle is split, and at which boundaries."""
