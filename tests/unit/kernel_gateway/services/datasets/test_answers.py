"""What a sandbox says of a file: believed within its bounds, an error else; and how the file is read by its handle."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kernel_gateway.errors import EnvironmentUnavailable, UnreadableFile
from kernel_gateway.services.datasets.answers import profile_of
from kernels.environment import Environment
from kernels.guest_client.client import CommandResult
from sandcell.models.datasets import DatasetProfile, load_expression

PROFILE: dict[str, Any] = {
    "format": "csv",
    "rows": 1,
    "rows_exact": True,
    "rows_read": 1,
    "complete": True,
    "basis": "all_rows",
    "column_count": 1,
    "columns": [{"name": "a", "dtype": "int64", "count": 1, "null_count": 0, "50%": 1.0, "max": 2**64 - 1}],
    "sample": [[1]],
}
FORGED = {
    "no-json": "hello",
    "nothing": "",
    "two": json.dumps({"profile": PROFILE}) * 2,
    "deep": "[" * 500_000,
    "neither": {},
    "another-member": {"profile": PROFILE, "also": 1},
    "a-member-too-many": {"profile": {**PROFILE, "path": "/etc/passwd"}},
    "negative-rows": {"profile": {**PROFILE, "rows": -1}},
    "huge-rows": {"profile": {**PROFILE, "rows": 10**30}},
    "a-long-name": {"profile": {**PROFILE, "columns": [{"name": "x" * 10_000, "dtype": "int64"}]}},
    "many-columns": {"profile": {**PROFILE, "columns": PROFILE["columns"] * 513}},
    "many-rows": {"profile": {**PROFILE, "sample": [[1]] * 11}},
    "ragged-sample": {"profile": {**PROFILE, "sample": [[1, 2]]}},
    "nested-cell": {"profile": {**PROFILE, "sample": [[[1]]]}},
    "code-for-a-separator": {"profile": {**PROFILE, "separator": "'); import os; ('"}},
    "another-format": {"profile": {**PROFILE, "format": "parquet"}},
    "a-word-of-two-lines": {"refused": {"reason": "bad\nword", "message": "x"}},
    "an-endless-message": {"refused": {"reason": "bad", "message": "x" * 401}},
    "lone-surrogates": '{"refused": {"reason": "bad", "message": "\\ud800"}}',
    "nan": json.dumps({"profile": PROFILE}).replace("1.0", "NaN"),
}


def said(stdout: Any, exit_code: int = 0, cut: int = 0) -> DatasetProfile:
    text = stdout if isinstance(stdout, str) else json.dumps(stdout)
    result = CommandResult(
        "1",
        "done",
        text,
        "",
        exit_code,
        timed_out=False,
        duration_seconds=1.0,
        stdout_truncated=cut,
        stderr_truncated=0,
    )
    return profile_of(result, Environment("python", "/", "sha256:0", image="python"), "csv", 60.0)


def test_a_profile_is_taken_as_it_is() -> None:
    profile = said({"profile": PROFILE})
    assert (profile.columns[0].p50, profile.columns[0].max, profile.sample) == (1.0, 2**64 - 1, [[1]])
    assert msgspec.json.decode(msgspec.json.encode(profile), type=DatasetProfile) == profile


@pytest.mark.parametrize("name", FORGED)
def test_what_is_no_profile_is_not_believed(name: str) -> None:
    with pytest.raises(UnreadableFile, match="broke its reader") as refused:
        said(FORGED[name])
    assert refused.value.details == {"reason": "damaged"}


@pytest.mark.parametrize(("exit_code", "cut"), [(1, 0), (139, 0), (0, 1)])
def test_a_reader_that_failed_or_said_too_much_is_not_believed(exit_code: int, cut: int) -> None:
    with pytest.raises(UnreadableFile, match="broke its reader"):
        said({"profile": PROFILE}, exit_code, cut)


def test_refusals_are_passed_on_in_one_line() -> None:
    with pytest.raises(UnreadableFile, match="row 3 is ragged") as refused:
        said({"refused": {"reason": "ragged", "message": "row 3 is ragged"}})
    assert refused.value.details == {"reason": "ragged"}
    with pytest.raises(UnreadableFile, match="broke its reader"):
        said({"refused": {"reason": "ragged", "message": "row\n\x1b[2J3"}})
    with pytest.raises(EnvironmentUnavailable, match="sandcell environments build python"):
        said({"refused": {"reason": "no_pyarrow", "message": ""}})


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({}, "pd.read_csv('/workspace/it\\'s \"x\".csv')"),
        ({"separator": ";", "encoding": "cp1252"}, "pd.read_csv({}, encoding='cp1252', sep=';')"),
        ({"separator": "\t"}, "pd.read_csv({}, sep='\\t')"),
        ({"format": "jsonl", "encoding": "utf-8"}, "pd.read_json({}, lines=True)"),
        ({"format": "parquet"}, "pd.read_parquet({})"),
        ({"format": "arrow", "variant": "file"}, "pd.read_feather({})"),
        ({"format": "arrow", "variant": "stream"}, "pa.ipc.open_stream({}).read_pandas()"),
    ],
)
def test_how_a_dataset_is_loaded(about: dict[str, Any], expected: str) -> None:
    location = '/workspace/it\'s "x".csv'
    profile = msgspec.convert({**PROFILE, **about}, DatasetProfile)
    assert load_expression(location, profile) == expected.replace("{}", repr(location))
    compile(load_expression(location, profile), "<load>", "eval")
