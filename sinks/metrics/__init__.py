"""Prometheus metrics of the processes: their settings, the HTTP server, and what collector,
executor and notifier measure. `streaming/job_metrics.py` has the metrics of the job.
"""
