"""Results of an analysis as tables and as JSON."""
