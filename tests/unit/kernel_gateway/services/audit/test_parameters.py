"""What the audit log keeps of parameters and answers, and that no member of any route says more than it should."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from kernel_gateway.services.audit import parameters as audit_parameters
from kernel_gateway.services.audit.parameters import ANSWERED, LONGEST_SHOWN, MOST_SHOWN, select_answer, select_values
from sandcell.models.commands import StartProgram
from sandcell.models.credentials import TokenInfo
from sandcell.models.executions import Execution, Submission
from sandcell.models.sessions import ForkPoint, StartSession


class File(msgspec.Struct):
    path: str
    text: str | msgspec.UnsetType = msgspec.UNSET
    blob: bytes | msgspec.UnsetType = msgspec.UNSET


def test_code_and_commands_are_shown_by_length_and_hash() -> None:
    code = "password = 'é'"
    digest = {"characters": 14, "sha256": hashlib.sha256(code.encode()).hexdigest()}
    kept = select_values(Submission(code=code, timeout_seconds=3))
    assert kept["code"] == digest
    assert (kept["language"], kept["timeout_seconds"], kept["wait"]) == ("python", 3, True)
    assert "expect_generation" not in kept, "what is not given is left out"
    assert select_values({"arguments": {"command": code}}) == {"arguments": {"command": digest}}
    assert select_values({"code": "\udc80"})["code"]["characters"] == 1


def test_bodies_of_files_are_shown_by_length() -> None:
    kept = select_values({"content": [File("a.txt", text="secret"), File("b.bin", blob=b"\0" * 9)]})
    assert kept == {"content": [{"path": "a.txt", "text": {"characters": 6}}, {"path": "b.bin", "blob": {"bytes": 9}}]}


def test_a_fork_names_its_original() -> None:
    kept = select_values(StartSession(from_=ForkPoint("the-original", cell=3)))
    assert kept["from"] == {"session": "the-original", "cell": 3, "exact": False, "replay": False}


def test_text_under_a_name_that_nobody_knows_is_hidden() -> None:
    assert select_values({"secret": "x" * 7, "deep": {"password": "abc"}}) == {
        "secret": {"characters": 7},
        "deep": {"password": {"characters": 3}},
    }


def test_labels_and_tags_are_shown_whole_and_everything_is_bounded() -> None:
    assert select_values({"labels": {"team": "a", "x": "b"}})["labels"] == {"team": "a", "x": "b"}
    assert len(select_values({"labels": {str(number): "v" for number in range(1_000)}})["labels"]) == MOST_SHOWN
    assert select_values({"paths": [f"f{number}" for number in range(10_000)]})["paths"][MOST_SHOWN:] == [
        {"omitted": 10_000 - MOST_SHOWN}
    ]
    assert select_values({f"n{number}": number for number in range(50)})["omitted"] == 50 - MOST_SHOWN
    assert len(select_values({"name": "x" * 100_000})["name"]) == LONGEST_SHOWN + 3
    assert select_values({"name": "a\x1b[2J\udc80"})["name"] == "a\\x1b[2J\\udc80"


def test_depth_is_bounded() -> None:
    nested: Any = {"x": 1}
    for _ in range(100):
        nested = {"x": nested}
    assert len(str(select_values(nested))) < 100


def test_secrets_of_answers_are_not_kept() -> None:
    assert select_answer(TokenInfo("id", "bob", "laptop", "now", token="sandcell_secret")) == {
        "id": "id",
        "principal": "bob",
        "name": "laptop",
    }
    kept = select_answer(Execution("e", "s", "ok", "python", "code", 1, "now", stdout="secret"))
    assert kept == {"id": "e", "session_id": "s", "status": "ok", "generation": 1, "kind": "code"}
    assert select_answer(None) is None
    assert select_answer(b"bytes") is None


@pytest.mark.parametrize(
    "word", ["token", "secret", "secret_access_key", "code", "stdout", "stderr", "content", "text"]
)
def test_no_name_that_means_content_is_open(word: str) -> None:
    assert word not in ANSWERED | audit_parameters.SHOWN | audit_parameters.OPEN


def test_of_environment_variables_the_number_is_kept() -> None:
    request = StartProgram(command=["env"], variables={"name": "secret", "AWS_KEY": "secret"})
    kept = select_values(request)
    assert kept["variables"] == {"entries": 2}
    assert "secret" not in str(kept)
