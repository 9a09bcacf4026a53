"""What a roll does next: one broker after the other is drained and restarted."""
