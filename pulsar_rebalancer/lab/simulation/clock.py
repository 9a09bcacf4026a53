"""Virtual time of a modelled cluster."""

#: Start of virtual time in ms since the epoch: 2026-01-01 00:00 UTC.
START_MS = 1_767_225_600_000
#: Statistics period of a broker with default settings (statsUpdateFrequencyInSecs), which is also
#: the interval of its CPU measurements.
PERIOD_S = 60.0
PERIOD_MS = 60_000
