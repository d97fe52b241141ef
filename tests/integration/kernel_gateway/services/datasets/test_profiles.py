"""What is said of files, beside what pandas says of them: formats, types, statistics, exact and estimated."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sandcell.models.datasets import Described
from tests.integration.kernel_gateway.services.datasets.conftest import Reader

TABLE = """
rows = 30_000
numbers = np.arange(rows)
table = pd.DataFrame({
    "id": numbers * 7,
    "price": np.where(numbers % 4 == 0, np.nan, np.sqrt(numbers)),
    "few": numbers % 5 - 2,
    "kind": np.where(numbers % 3 == 0, "apple", "pear"),
    "name": [f"name {each % 20_011}" for each in numbers],
    "sold": numbers % 2 == 0,
    "at": pd.date_range("2026-01-01", periods=rows, freq="s"),
})
table.loc[10, "kind"] = None
table.to_csv("t.csv", index=False)
table.to_csv("t16.csv", index=False, encoding="utf-16", sep=";")
table.to_parquet("t.parquet", row_group_size=10_000)
table.to_feather("t.feather")
with pa.OSFile("t.arrows", "wb") as file, pa.ipc.new_stream(file, pa.Table.from_pandas(table).schema) as stream:
    stream.write_table(pa.Table.from_pandas(table), max_chunksize=7_000)
table.to_json("t.jsonl", orient="records", lines=True, date_format="iso", double_precision=15)
said = table.describe(include="all").drop(columns="at")
print(said.to_json(double_precision=15))
"""


@pytest.fixture(scope="module")
def described(reader: Reader) -> dict[str, Any]:
    """What pandas says of the table."""
    found: dict[str, Any] = json.loads(reader.run(TABLE))
    return found


@pytest.mark.parametrize(
    ("path", "about"),
    [
        ("t.csv", {"format": "csv", "encoding": "utf-8", "separator": ","}),
        ("t16.csv", {"format": "csv", "encoding": "utf-16", "separator": ";"}),
        ("t.parquet", {"format": "parquet", "row_groups": 3}),
        ("t.feather", {"format": "arrow", "variant": "file"}),
        ("t.arrows", {"format": "arrow", "variant": "stream"}),
        ("t.jsonl", {"format": "jsonl", "encoding": "utf-8"}),
    ],
)
def test_a_table_is_described_as_pandas_describes_it(
    reader: Reader, described: dict[str, Any], path: str, about: dict[str, Any]
) -> None:
    profile = reader.profile(path)
    assert about.items() <= profile.items()
    assert (profile["rows"], profile["rows_read"], profile["column_count"]) == (30_000, 30_000, 7)
    assert profile["rows_exact"] is profile["complete"] is True
    assert profile["basis"] == "all_rows"
    columns = {column["name"]: column for column in profile["columns"]}
    assert list(columns) == ["id", "price", "few", "kind", "name", "sold", "at"]
    for name, theirs in described.items():
        ours = columns[name]
        assert ours["count"] == theirs["count"]
        assert ours["null_count"] == 30_000 - theirs["count"]
        for word in ("mean", "std", "min", "max"):
            if isinstance(theirs.get(word), float | int):
                assert ours[word] == pytest.approx(theirs[word]), (name, word)
    assert (columns["kind"]["unique"], columns["kind"]["top"]) == (2, "pear")
    assert columns["kind"]["freq"] == described["kind"]["freq"]
    assert columns["name"]["unique"] == pytest.approx(20_011, rel=0.1)
    assert columns["name"]["estimated"] == ["unique"]
    assert columns["few"]["unique"] == 5
    assert columns["few"]["50%"] == pytest.approx(0, abs=1)
    assert columns["id"]["50%"] == pytest.approx(described["id"]["50%"], rel=0.1)
    assert set(columns["id"]["estimated"]) == {"unique", "25%", "50%", "75%"}
    assert columns["id"]["dtype"] == "int64"
    assert columns["price"]["dtype"] == "float64"
    assert columns["sold"]["dtype"] == "bool"
    msgspec.convert({"profile": profile}, Described)


def test_a_sample_is_of_rows_of_the_file_in_their_order(reader: Reader, described: dict[str, Any]) -> None:
    first, again = reader.profile("t.csv")["sample"], reader.profile("t.csv")["sample"]
    assert first == again
    assert len(first) == 10
    numbers = [row[0] // 7 for row in first]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] > 5_000, "rows are drawn from all of the file"
    for number, row in zip(numbers, first, strict=True):
        assert row[2] == number % 5 - 2
        assert row[4] == f"name {number % 20_011}"


def test_small_tables_are_exact(reader: Reader, described: dict[str, Any]) -> None:
    reader.run("small = pd.read_parquet('t.parquet').head(1_000); small.to_csv('small.csv', index=False)")
    quarters = json.loads(reader.run("print(small.id.quantile([.25, .5, .75]).tolist())"))
    column = reader.profile("small.csv")["columns"][0]
    assert [column[word] for word in ("25%", "50%", "75%")] == pytest.approx(quarters)
    assert (column["unique"], column["estimated"]) == (1_000, [])


def test_types_are_widened_where_later_rows_are_not_as_the_first(reader: Reader) -> None:
    reader.run("Path('wider.csv').write_text('a,b,c,d\\n' + '1,,true,2026-01-01\\n' * 1_200_000 + '1.5,7,2,x\\n')")
    profile = reader.profile("wider.csv")
    columns = {column["name"]: column for column in profile["columns"]}
    assert profile["rows"] == 1_200_001
    assert {name: column["dtype"] for name, column in columns.items()} == {
        "a": "float64",
        "b": "int64",
        "c": "string",
        "d": "string",
    }
    assert (columns["a"]["min"], columns["a"]["max"]) == (1, 1.5)
    assert (columns["b"]["count"], columns["b"]["null_count"]) == (1, 1_200_000)
    assert (columns["d"]["top"], columns["d"]["freq"]) == ("2026-01-01", 1_200_000)


ARROW_TYPES = """
table = pa.table({
    "decimal": pa.array([1, 2, None], pa.decimal128(10, 2)),
    "list": [[1], [2, 3], None],
    "struct": [{"a": 1}, None, {"a": 2}],
    "ns": pa.array([1, 2, 3], pa.timestamp("ns", tz="UTC")),
    "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
    "binary": [b"\\xff", b"b", None],
    "uint64": pa.array([2**64 - 1, 0, 1], pa.uint64()),
    "duration": pa.array([1, 2, 3], pa.duration("s")),
    "null": pa.nulls(3),
    "half": pa.array([1, 2, 3], pa.float16()),
    "date": pa.array([1, 2, 3], pa.date32()),
    "view": pa.array(["q", "w", "e"], pa.string_view()),
    "infinite": [float("inf"), float("-inf"), float("nan")],
})
with pa.OSFile("types.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
    writer.write_table(table)
"""


def test_every_type_of_arrow_is_told_and_sampled(reader: Reader) -> None:
    reader.run(ARROW_TYPES)
    profile = reader.profile("types.arrow")
    columns = {column["name"]: column for column in profile["columns"]}
    assert columns["decimal"]["dtype"] == "decimal128(10, 2)"
    assert (columns["decimal"]["max"], columns["decimal"]["mean"]) == ("2.00", 1.5)
    assert columns["ns"]["dtype"] == "timestamp[ns, tz=UTC]"
    assert columns["ns"]["min"].startswith("1970-01-01 00:00:00.000000001")
    assert (columns["dictionary"]["unique"], columns["dictionary"]["top"]) == (2, "x")
    assert (columns["uint64"]["min"], columns["uint64"]["max"]) == (0, 2**64 - 1)
    assert columns["duration"]["max"] is not None
    assert (columns["null"]["dtype"], columns["null"]["count"]) == ("null", 0)
    assert columns["half"]["dtype"] == "float16"
    assert (columns["date"]["min"], columns["date"]["max"]) == ("1970-01-02", "1970-01-04")
    assert columns["list"]["count"] == 2
    assert columns["infinite"]["null_count"] == 1
    assert (columns["infinite"]["max"], columns["infinite"]["mean"]) == ("inf", None)
    assert profile["sample"][0][1:3] == ["[1]", '{"a": 1}']
    msgspec.convert({"profile": profile}, Described)


def test_json_lines_with_objects_of_all_kinds(reader: Reader) -> None:
    lines = [
        '{"a": 1, "b": 1, "text": "\\ud800"}',
        "",
        '{"a": "x", "b": 2.5, "c": {"d": [1, 2]}}',
        '{"b": 123456789012345678901234567890, "late": true}',
    ]
    reader.run(f"Path('kinds.jsonl').write_text({chr(10).join(lines)!r})")
    profile = reader.profile("kinds.jsonl")
    columns = {column["name"]: column for column in profile["columns"]}
    assert profile["rows"] == 3
    assert columns["a"] == {"name": "a", "dtype": "object"}
    assert columns["b"]["max"] == pytest.approx(1.2345678901234568e29)
    assert (columns["c"]["count"], columns["c"]["null_count"]) == (1, 2)
    assert (columns["late"]["dtype"], columns["late"]["count"]) == ("bool", 1)
    msgspec.convert({"profile": profile}, Described)


def test_a_wide_table_is_told_in_part_and_within_its_bound(reader: Reader) -> None:
    reader.run("names = [f'{n:04}' + 'é' * 300 for n in range(3_000)]")
    reader.run("Path('wide.csv').write_text(','.join(names) + '\\n' + ','.join(['y' * 500] * 3_000) + '\\n')")
    profile = reader.profile("wide.csv")
    assert profile["column_count"] == 3_000
    assert 20 < len(profile["columns"]) <= 512
    assert len(json.dumps(profile)) <= 200_000
    assert profile["columns"][0]["name"].startswith("0000éé")
    msgspec.convert({"profile": profile}, Described)


@pytest.mark.parametrize("path", ["t.jsonl", "t.parquet", "t.arrows"])
def test_without_time_what_was_read_stands_for_all(reader: Reader, described: dict[str, Any], path: str) -> None:
    profile = reader.profile(path, seconds=0.0)
    assert 0 < profile["rows_read"] < 30_000
    assert profile["complete"] is False
    assert profile["basis"] == ("some_row_groups" if path == "t.parquet" else "first_rows")
    assert profile["rows_exact"] is (path == "t.parquet")
    assert profile["rows"] == pytest.approx(30_000, rel=0 if path == "t.parquet" else 0.7)


def test_the_first_part_of_a_text_file_stands_for_all(reader: Reader, described: dict[str, Any]) -> None:
    reader.run("whole = Path('t.csv').read_bytes(); Path('part.csv').write_bytes(whole[:200_000])")
    size = int(reader.run("print(len(whole))"))
    profile = reader.profile("part.csv", size=size)
    assert (profile["complete"], profile["rows_exact"], profile["basis"]) == (False, False, "first_rows")
    assert profile["rows"] == pytest.approx(30_000, rel=0.3)
    assert profile["rows_read"] < 10_000


PARTS = {
    "cut within quotes": ("x.csv", "b'a,b\\n' + b'1,x\\n' * 5_000 + b'2,\"open\\nand cut'", 1_000_000, 5_001),
    "cut within a line": ("x.jsonl", 'b\'{"a": 1}\\n\' * 5_000 + b\'{"a": "cut\'', 1_000_000, 5_000),
    "one line": ("x.jsonl", "b'{\"a\": 1}'", 1_000_000, 1),
    "a mark": ("x.csv", "b'\\xef\\xbb\\xbfa,b\\n1,2\\n'", None, 1),
    "a mark and carriage returns": ("x.jsonl", 'b\'\\xef\\xbb\\xbf{"a": 1}\\r\\n{"a": 2}\\r\\n\'', None, 2),
    "UTF-16": ("x.jsonl", '\'{"a": "é"}\\n{"a": "x"}\\n\'.encode(\'utf-16\')', None, 2),
}


@pytest.mark.parametrize("name", PARTS)
def test_text_is_read_from_its_mark_to_the_last_whole_row_of_the_part_that_is_here(reader: Reader, name: str) -> None:
    path, content, size, rows = PARTS[name]
    reader.run(f"Path({path!r}).write_bytes({content})")
    profile = reader.profile(path, size=size)
    assert (profile["rows_read"], profile["complete"]) == (rows, size is None)
    assert profile["columns"][0]["name"] == "a"
