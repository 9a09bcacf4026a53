"""Columnar recordings are read within a memory bound: small files may claim, and repeat, very
much.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sinks.recordings.columnar import schema
from sinks.recordings.columnar_reading import read_blocks
from strategies.errors import SinkError


def write(path: Path, rows: int, **columns: list[Any]) -> Path:
    """A columnar recording in one row group, all null but for the columns that are given."""
    given = {"kind": ["rejected"] * rows, "ts": [0] * rows, **columns}
    arrays = [pa.array(given.get(field.name, [None] * rows), field.type) for field in schema()]
    parquet.write_table(
        pa.table(arrays, schema=schema()), path, compression="zstd", row_group_size=rows
    )
    return path


@pytest.mark.lab
def test_a_value_that_is_repeated_thousands_of_times_is_held_once(tmp_path: Path) -> None:
    path = write(tmp_path / "repeated.parquet", 1_000, original=[b"x" * 900_000] * 1_000)
    assert path.stat().st_size < 2**20
    (block,) = read_blocks(path)
    assert block.originals.nbytes < 10 * 2**20
    assert block.original(999) == b"x" * 900_000


def test_a_row_group_of_very_many_records_is_refused_with_its_number(tmp_path: Path) -> None:
    path = write(tmp_path / "many.parquet", 70_000)
    with pytest.raises(
        SinkError,
        match=r"many\.parquet: row group 0 has 70000 records .* make it with `rebalancer convert`",
    ):
        list(read_blocks(path))


@pytest.mark.lab
def test_a_column_that_would_take_very_much_memory_is_refused_with_its_row_group(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "wide.parquet", 2, bundle_traffic=[None, [0.0] * (2**25 + 1)])
    assert path.stat().st_size < 2**20
    with pytest.raises(
        SinkError, match=r"wide\.parquet: row group 0 has 2 records and a column of 256 MiB"
    ):
        list(read_blocks(path))
