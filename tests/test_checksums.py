"""Saved files have a checksum: what another program or a flipped bit changes is noticed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.storage.arrow_tables import checksum
from tests.fuzz.saved import objects, same, table_of
from tests.test_damaged_files import KINDS, loaded, metadata_of


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_by_another_program_is_noticed(kind, tmp_path):
    table = table_of(objects()[kind])
    new = {**metadata_of(table), "library_version": "0"}
    edited = table.replace_schema_metadata({b"lwcs": json.dumps(new)})
    with pytest.raises(ValueError, match=r"checksum: it is damaged, or another program changed it"):
        loaded(edited, tmp_path)


def test_a_file_without_a_checksum_is_refused(tmp_path):
    coreset = objects()["coreset"]
    record = metadata_of(coreset.to_arrow())
    del record["checksum"]
    bare = coreset.to_arrow().replace_schema_metadata({b"lwcs": json.dumps(record)})
    with pytest.raises(ValueError, match="is damaged: field 'checksum' is missing"):
        loaded(bare, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_checksum_does_not_depend_on_how_a_table_is_laid_out(kind):
    table = table_of(objects()[kind])
    record = metadata_of(table)
    expected = checksum(table, record)
    rows = len(table)
    sliced = pa.concat_tables([table, table, table]).slice(rows, rows)
    cut = pa.concat_tables([table.slice(0, rows // 2), table.slice(rows // 2)])
    coded = table
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            coded = coded.set_column(i, field.name, table[field.name].dictionary_encode())
    for other in (sliced, cut, cut.combine_chunks(), coded):
        assert checksum(other, record) == expected
    assert checksum(table, dict(reversed(record.items()))) == expected
    if rows:
        assert checksum(table.slice(1), record) != expected


def flips(kind: str, folder: Path, most: int | None = None) -> tuple[int, int]:
    """Flip bits of the footer of a file; count errors and equal objects, and allow nothing else."""
    thing, path = objects()[kind], folder / "f.parquet"
    pq.write_table(table_of(thing), path, write_page_checksum=True)
    whole = path.read_bytes()
    footer = 8 + int.from_bytes(whole[-8:-4], "little")
    bits = range(8 * (len(whole) - footer), 8 * len(whole))
    chosen = bits if most is None else random.Random(0).sample(bits, most)
    errors = equal = 0
    for bit in chosen:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = lwcs.load(path)
        except ValueError as error:
            errors += "f.parquet" in str(error)
        else:
            assert same(found, thing), f"bit {bit} made another object"
            equal += 1
    return errors, equal


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_of_the_footer_is_noticed_or_changes_nothing(kind, tmp_path):
    errors, equal = flips(kind, tmp_path, 60)
    assert errors > 20
    assert errors + equal == 60


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_of_the_footer_is_noticed_or_changes_nothing(kind, tmp_path):
    errors, equal = flips(kind, tmp_path)
    print(f"\n{kind}: {errors:,} errors, {equal:,} equal objects")
    assert errors > equal / 2
