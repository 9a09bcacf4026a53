"""Prometheus metrics of the processes: their settings, the HTTP server, and what collector and
executor measure. `streaming/metrics.py` has the metrics of the job.
"""
