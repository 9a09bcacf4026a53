"""The executor: takes commands from the control topic, judges them and applies them to the
cluster.
"""
