"""What an upgrade of Pulsar would do to a recorded cluster: back-tests with both releases, and what
they mean.
"""
