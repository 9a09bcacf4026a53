"""Compares our decisions with those of Pulsar's own classes, case by case."""
