"""Intents of operators: drain a broker, roll a cluster. An intent is a telemetry record, and rounds
turn it into commands.
"""
