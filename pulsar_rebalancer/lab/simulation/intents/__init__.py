"""Operators of a modelled cluster, who drain brokers and roll it with a modelled process."""
