"""Names of many bundles are checked together, with the result of one by one."""

import pytest

from sinks.wire.names_and_times import check_bundles, is_bundle
from strategies.errors import WireError
from tests.calls import watched_calls

MANY = [f"t{i % 7}/ns-{i % 50}/0x{16 * i:08x}_0x{16 * i + 16:08X}" for i in range(2_000)]

LEGAL = (
    "t/ns/0x00000000_0x100000000",
    "t/ns/0xF0000000_0xFFFFFFFF",
    "pulsar/10.0.0.1:8080/0x00000000_0xffffffff",
    "pulsar/cluster-1/10.0.0.1:8080/0x00000000_0xffffffff",
    "sla-monitor/10.0.0.1:8080/0x00000000_0xffffffff",
    "bücher/größe ⛵/0x00000000_0xABCDEF01",
)
ILLEGAL = (
    "t/ns/0x00000001_0x00000001",
    "t/ns/0x00000002_0x00000001",
    "t/ns/0xffffffff_0x00000000",
    "t/ns/0x0000000g_0x10000000",
    "t/ns/0x0000000/_0x10000000",
    "t/ns/0x0000000:_0x10000000",
    "t/ns/0x0000_000_0x10000000",
    "t/ns/0X00000000_0x10000000",
    "t/ns/1x00000000_0x10000000",
    "t/ns/0x00000000-0x10000000",
    "t/ns/0x00000000_0y10000000",
    "t/ns/0x0000000٣_0x10000000",
    "t/ns/0x00000000_0x1000000",
    "t/ns/0x000000000x00000000_0x10000000",
    "ns/0x00000000_0x10000000",
    "a/b/c/d/0x00000000_0x10000000",
    "t//0x00000000_0x10000000",
    "t/n\ns/0x00000000_0x10000000",
    f"t/{'n' * 512}/0x00000000_0x10000000",
    "0x00000000_0x10000000",
    "",
)


@pytest.mark.parametrize("at", [0, 1_000, 2_000])
@pytest.mark.parametrize("name", [*LEGAL, *ILLEGAL])
def test_one_name_among_many_is_judged_as_alone(name: str, at: int) -> None:
    assert is_bundle(name) == (name in LEGAL)
    names = [*MANY[:at], name, *MANY[at:]]
    if name in LEGAL:
        check_bundles(names, "{}")
        return
    with pytest.raises(WireError) as alone:
        check_bundles([name], "$.report.lastStats[{}]")
    with pytest.raises(WireError) as among:
        check_bundles(names, "$.report.lastStats[{}]")
    assert among.value.text == alone.value.text


def test_many_names_cost_no_call_for_each() -> None:
    seen: list[str] = []
    with watched_calls(lambda frame: seen.append(frame.f_code.co_name)):
        check_bundles(MANY, "{}")
    assert seen.count("is_bundle") == 0
