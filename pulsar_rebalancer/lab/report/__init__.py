"""The HTML report of one or several runs, as one self-contained file: the verdict, the next steps,
and charts.
"""
