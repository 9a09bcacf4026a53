"""`python -m tools.monitoring.record FOLDER`: writes each incident as a test for `promtool test
rules`, to look at its series.
"""

import sys
from pathlib import Path

from tools.monitoring.incidents import INCIDENTS, Incident
from tools.monitoring.promtool import Expected, rule_test
from tools.monitoring.scrapes import INTERVAL_S


def recorded(incident: Incident, folder: Path) -> str:
    """The incident as a test: at each minute, which alerts fire."""
    scrapes = incident.record(folder)
    expected = [_at(incident, minute) for minute in range(1, scrapes.minutes)]
    return rule_test(
        scrapes.input_series(), INTERVAL_S, promql_expr_test=[one.test() for one in expected]
    )


def _at(incident: Incident, minute: int) -> Expected:
    if not incident.alert or minute < incident.begins_min:
        return Expected(minute)
    if minute < incident.fires_min:
        return Expected(minute, or_not=incident.alert)
    return Expected(minute, (incident.alert,))


def main(folder: Path) -> None:
    """Writes one file per incident."""
    for incident in INCIDENTS:
        place = folder / incident.name
        place.mkdir(parents=True)
        file = folder / f"{incident.name}.yml"
        file.write_text(recorded(incident, place), "utf-8")
        print(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
