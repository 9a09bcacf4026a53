"""What a run was worth: figures of a timeline, and how far it was from the best that was possible."""
