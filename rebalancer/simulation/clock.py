"""Virtual time of a modelled cluster."""

#: When it starts: 2026-01-01 00:00 UTC.
START_MS = 1_767_225_600_000
#: Statistics period of a stock broker (statsUpdateFrequencyInSecs), which is also how often its CPU is measured.
PERIOD_S = 60.0
PERIOD_MS = 60_000
