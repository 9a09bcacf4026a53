"""The jars that Spark needs for Kafka topics: their lock, the download, and how a session gets
them.
"""
