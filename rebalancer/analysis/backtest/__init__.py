"""What strategies would have decided on a recording, and what would have come of it."""
