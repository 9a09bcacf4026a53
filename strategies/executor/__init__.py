"""Rules that the executor asks before it carries out a command."""
