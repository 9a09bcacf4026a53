"""Output of `rebalancer simulate`: tables, comparisons with published results, and the report
page.
"""
