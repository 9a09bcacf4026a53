"""The checks of `rebalancer doctor`: each returns findings about what the job needs, with a
remedy.
"""
