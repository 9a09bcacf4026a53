"""What `rebalancer simulate` shows: tables, comparisons with published results, and the report page."""
