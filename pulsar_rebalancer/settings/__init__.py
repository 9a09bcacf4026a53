"""The typed tree of all settings: sources of values, checks, and the objects that each package
takes.
"""
