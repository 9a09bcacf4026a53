"""A folder for PYTHONPATH of the Python processes of a driver whose PySpark may be an archive; see
`sitecustomize`.
"""
