"""A recording, decided once more: the plain loop, Spark, or a pipe; and what is shown and kept of the decisions."""
