"""Files that cannot be described: each gets a stable word, and a sentence that says where and what to do."""

from __future__ import annotations

import re

import pytest

from tests.integration.kernel_gateway.services.datasets.conftest import Reader

GOOD = """
good = pa.table({"a": list(range(5_000)), "b": [f"text {n}" for n in range(5_000)]})
pq.write_table(good, "good.parquet")
with pa.OSFile("good.arrow", "wb") as file, pa.ipc.new_file(file, good.schema) as writer:
    writer.write_table(good)
parquet, arrow = Path("good.parquet").read_bytes(), Path("good.arrow").read_bytes()
"""
BROKEN = {
    "empty": ("x.csv", "b''", "", "empty", "0 bytes"),
    "blank": ("x.csv", "b'\\n\\n'", "", "empty", "not even a header"),
    "blank-lines": ("x.jsonl", "b'\\n  \\n'", "", "empty", "no line with an object"),
    "too-many-values": ("x.csv", "b'a,b\\n1,2\\n3,4,5\\n'", "", "ragged", "row 3 has 3 values and the header names 2"),
    "too-few-values": ("x.csv", "b'a,b\\n1,2\\n3\\n'", "", "ragged", "row 3 has 1 values"),
    "latin-1": (
        "x.csv",
        "'a\\ncafé\\n'.encode('latin-1')",
        "",
        "encoding",
        r"line 2 .*0xe9.*encoding=cp1252 or latin-1",
    ),
    "late-latin-1": ("x.csv", "b'a\\n' + b'some text\\n' * 1_800_000 + b'\\xe9\\n'", "", "encoding", "line 1,800,002 "),
    "jsonl-latin-1": ("x.jsonl", 'b\'{"a": 1}\\n{"a": "\\xe9"}\\n\'', "", "encoding", "line 2 .*0xe9"),
    "no-utf-16-mark": ("x.csv", "'a,b\\n1,2\\n'.encode('utf-16-le')", "", "encoding", "encoding=utf-16"),
    "no-utf-16": ("x.csv", "b'\\xff\\xfea\\x00\\n\\x00\\x00\\xd8\\n\\x00'", "", "encoding", "not UTF-16 near byte"),
    "zero-bytes": ("x.csv", "b'a,b\\n\\0\\0\\0\\n'", "", "encoding", "zero bytes"),
    "parquet-cut-off": ("x.parquet", "parquet[:-500]", "", "truncated", "no end.*upload it again"),
    "parquet-damaged": ("x.parquet", "parquet[:200] + b'\\xff' * 400 + parquet[600:]", "", "damaged", "row group 1"),
    "parquet-footer": (
        "x.parquet",
        "parquet[:-60] + b'\\xff' * 40 + parquet[-20:]",
        "",
        "damaged",
        "write or upload it",
    ),
    "parquet-encrypted": ("x.parquet", "b'PARE' + parquet[4:-4] + b'PARE'", "", "encrypted", "without encryption"),
    "not-parquet": ("x.parquet", "b'a,b\\n1,2\\n'", "", "wrong_format", "not Parquet"),
    "arrow-cut-off": ("x.arrow", "arrow[:-500]", "", "damaged", "cut off"),
    "arrow-damaged": ("x.arrow", "arrow[:-150] + b'\\xff' * 100 + arrow[-50:]", "", "damaged", "cut off or changed"),
    "parquet-as-csv": ("x.csv", "parquet", "csv", "wrong_format", "format=parquet"),
    "arrow-as-parquet": ("x.parquet", "arrow", "parquet", "wrong_format", "format=arrow"),
    "gzip": ("x.csv", "__import__('gzip').compress(b'a\\n1\\n')", "", "wrong_format", "gzip.*unpack"),
    "excel": ("x.csv", "b'PK\\x03\\x04' + b'\\0' * 50", "", "wrong_format", "Excel"),
    "unknown": ("x.bin", "b'hello'", "", "unknown_format", "say the format"),
    "json-array": ("x.json", "b'[{\"a\": 1}]'", "", "wrong_format", "lines=True"),
    "json-cut-off": ("x.jsonl", 'b\'{"a": 1}\\n{"a": \'', "", "damaged", "line 2 is not JSON"),
    "json-deep": ("x.jsonl", "b'{\"a\": ' + b'[' * 200_000 + b'\\n'", "", "damaged", "line 1 is not JSON"),
    "json-list": ("x.jsonl", "b'{\"a\": 1}\\n[1]\\n'", "", "wrong_format", "line 2 is a list"),
    "json-long-line": ("x.jsonl", "b'{\"a\": \"' + b'x' * 17_000_000", "", "row_too_long", "line 1 is longer"),
}


@pytest.fixture(scope="module", autouse=True)
def good(reader: Reader) -> None:
    reader.run(GOOD)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_what_to_do(reader: Reader, name: str) -> None:
    path, content, wanted, reason, message = BROKEN[name]
    reader.run(f"Path({path!r}).write_bytes({content})")
    said = reader.answer(path, format=wanted)
    assert said.keys() == {"refused"}, said
    assert said["refused"]["reason"] == reason, said
    assert re.search(message, said["refused"]["message"]), said
    assert "café" not in said["refused"]["message"]


def test_a_file_in_another_encoding_is_read_when_it_is_said(reader: Reader) -> None:
    reader.run("Path('x.csv').write_bytes('a\\ncafé €\\n'.encode('cp1252'))")
    assert reader.profile("x.csv", encoding="cp1252")["sample"] == [["café €"]]


def test_a_header_alone_is_a_table_without_rows(reader: Reader) -> None:
    reader.run("Path('x.csv').write_text('a,b\\n'); pq.write_table(good.slice(0, 0), 'x.parquet')")
    for path, kinds in (("x.csv", ["null", "null"]), ("x.parquet", ["int64", "string"])):
        profile = reader.profile(path)
        assert (profile["rows"], profile["complete"], profile["sample"]) == (0, True, [])
        assert [column["dtype"] for column in profile["columns"]] == kinds


def test_names_that_are_there_twice_and_lines_within_quotes(reader: Reader) -> None:
    reader.run("Path('x.csv').write_text('a,a,b\\n1,2,\"x\\ny, z\"\\n')")
    profile = reader.profile("x.csv")
    assert [column["name"] for column in profile["columns"]] == ["a", "a", "b"]
    assert profile["sample"] == [[1, 2, "x\ny, z"]]


def test_random_damage_never_ends_the_reader_without_an_answer(reader: Reader) -> None:
    """Bytes turned at random places: described or refused, whatever else is in the file."""
    said = reader.run(
        "random = np.random.default_rng(1)\n"
        "for number in range(120):\n"
        "    whole = bytearray(parquet if number % 2 else arrow)\n"
        "    for place in random.integers(4, len(whole) - 8, 1 + number % 7):\n"
        "        whole[place] ^= 1 << random.integers(8)\n"
        '    path = f\'damaged.{"parquet" if number % 2 else "arrow"}\'\n'
        "    Path(path).write_bytes(whole)\n"
        "    asked = argparse.Namespace(path=path, name=path, format='', encoding='', size=None, seconds=60.0)\n"
        "    assert json.loads(json.dumps(answer(asked), allow_nan=False)).keys() < {'profile', 'refused'}\n"
        "print('all answered')\n"
    )
    assert said == "all answered\n"
