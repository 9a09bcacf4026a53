"""Topics as streaming sources of Spark."""
