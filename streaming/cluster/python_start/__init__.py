"""A folder for PYTHONPATH of Spark's workers on this machine; see `sitecustomize`."""
