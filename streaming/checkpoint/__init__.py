"""The checkpoint folder: its lock, its guard file, and the settings that may change under it."""
