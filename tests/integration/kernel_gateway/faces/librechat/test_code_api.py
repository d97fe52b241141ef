"""LibreChat's Code API over real sandboxes: what its server and its tool send, and what they look at in the answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from kernel_gateway.faces.librechat.identifiers import format_id, parse_id
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.running_service import RunningService

V1 = "/librechat/v1"


@dataclass(frozen=True)
class Chat:
    """A LibreChat with a key of its own."""

    http: httpx.Client
    key: str

    def ask(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = self.http.request(method, V1 + path, headers={"X-API-Key": self.key}, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if "json" in answer.headers["Content-Type"] else answer.content

    def run(self, code: str, lang: str = "py", **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("POST", "/exec", json={"lang": lang, "code": code, **more})
        return found

    def upload(self, name: str, content: bytes, **fields: str) -> dict[str, Any]:
        """A file, as an input of a run."""
        answer = self.ask("POST", "/upload", data=fields, files={"file": (name, content)})
        assert answer["message"] == "success"
        assert answer["session_id"] == answer["storage_session_id"]
        stored = answer["files"][0]
        return {"id": stored["fileId"], "name": name, "storage_session_id": answer["storage_session_id"]}


def make_chat(service: RunningService, http: httpx.Client) -> Chat:
    with service.client() as admin:
        return Chat(http, admin.create_token(f"chat-{uuid.uuid4()}").token or "")


@pytest.fixture(scope="module")
def http(service: RunningService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=120, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def chat(service: RunningService, http: httpx.Client) -> Iterator[Chat]:
    made = make_chat(service, http)
    yield made
    bearer = {"Authorization": f"Bearer {made.key}"}
    for session in http.get("/v1/sessions?status=READY", headers=bearer).json()["items"]:
        assert http.delete(f"/v1/sessions/{session['id']}", headers=bearer).is_success


@pytest.fixture(scope="module")
def home(chat: Chat) -> dict[str, Any]:
    """The answer to a first run, which has left a file."""
    return chat.run(
        "import os, sys; print(os.path.samefile('/mnt/data', '.'), sys.argv[1:]); open('kept.txt', 'w').write('1')",
        args=["a b"],
    )


def test_a_run_answers_with_its_output_and_files(chat: Chat, home: dict[str, Any]) -> None:
    assert (home["stdout"], home["stderr"]) == ("True ['a b']\n", "")
    (file,) = home["files"]
    assert (file["name"], file["path"], len(file["id"])) == ("kept.txt", "/mnt/data/kept.txt", 21)
    assert file["storage_session_id"] == file["session_id"] == home["session_id"]
    assert len(home["session_id"]) == 21
    assert chat.ask("GET", f"/download/{home['session_id']}/{file['id']}") == b"1"


def test_each_run_is_a_program_of_its_own_and_files_stay(chat: Chat, home: dict[str, Any]) -> None:
    first = chat.run("x = 1; open('new.txt', 'w').write('2')", files=home["files"])
    second = chat.run(
        "print(open('kept.txt').read(), open('/mnt/data/new.txt').read(), 'x' in dir())", files=home["files"]
    )
    assert second["stdout"] == "1 2 False\n"
    assert [each["name"] for each in first["files"]] == ["new.txt"]
    assert "files" not in second  # nothing changed
    assert home["session_id"] == first["session_id"] == second["session_id"]


def test_a_file_keeps_its_id_when_it_changes_and_is_told_when_it_goes(chat: Chat, home: dict[str, Any]) -> None:
    changed = chat.run("open('kept.txt', 'a').write('1')", files=home["files"])
    assert changed["files"] == home["files"]
    assert chat.run("import os; os.remove('kept.txt')", files=home["files"])["deleted_files"] == ["kept.txt"]
    chat.run("open('kept.txt', 'w').write('1')", files=home["files"])


def test_an_upload_is_copied_to_where_the_code_runs(chat: Chat, home: dict[str, Any]) -> None:
    table = chat.upload("tables/in.csv", b"a,b\n", kind="user", id="ann")
    inputs = [*home["files"], table]
    told = chat.run(
        "print(open('/mnt/data/tables/in.csv').read()); open('tables/in.csv', 'a').write('1,2')", files=inputs
    )
    assert told["stdout"] == "a,b\n\n"
    assert told["session_id"] == home["session_id"]
    (changed,) = told["files"]
    assert changed["name"] == "tables/in.csv"
    assert chat.ask("GET", f"/download/{table['storage_session_id']}/{table['id']}") == b"a,b\n"  # the upload stays
    assert chat.run("cat tables/in.csv", "bash", files=[*home["files"], changed])["stdout"] == "a,b\n1,2"
    assert chat.run("cat tables/in.csv", "bash", files=inputs)["stdout"] == "a,b\n"  # what was asked for


def test_a_shared_file_makes_no_run_at_home_with_it(chat: Chat, home: dict[str, Any]) -> None:
    """Files of agents and skills are many conversations': what one of them writes must not be the next one's."""
    shared = {**home["files"][0], "kind": "agent", "resource_id": "agent_1"}
    assert chat.run("cat kept.txt", "bash", files=[shared])["session_id"] != home["session_id"]


def test_files_are_listed_shown_and_deleted(chat: Chat, home: dict[str, Any]) -> None:
    upload = chat.upload("notes.md", b"# Notes")
    session, file = upload["storage_session_id"], upload["id"]
    (full,) = chat.ask("GET", f"/files/{session}?detail=full&kind=user&id=ann")
    assert full["name"].split("/")[1].split(".")[0] == file  # as older clients cut it out
    assert full["metadata"]["original-filename"] == "notes.md"
    assert chat.ask("GET", f"/files/{session}") == [full["name"]]
    assert chat.ask("GET", f"/files/{session}?detail=normalized")[0]["id"] == file
    shown = chat.ask("GET", f"/sessions/{session}/objects/{file}")
    assert (shown["size"], shown["lastModified"]) == (7, full["lastModified"])
    chat.ask("DELETE", f"/files/{session}/{file}")
    assert chat.ask("GET", f"/sessions/{session}/objects/{file}", 404)["error"] == "File not found"
    assert "is not there any more" in chat.run("print(1)", files=[*home["files"], upload])["stderr"]


def test_a_batch_says_of_each_file_whether_it_is_there(chat: Chat) -> None:
    files = [("file", ("skill/SKILL.md", b"1")), ("file", ("../escape", b"2"))]
    told = chat.ask("POST", "/upload/batch", files=files, data={"kind": "skill", "id": "s", "version": "1"})
    assert (told["message"], told["succeeded"], told["failed"]) == ("partial_success", 1, 1)
    assert [each["status"] for each in told["files"]] == ["success", "error"]
    assert chat.ask("POST", "/upload", 400, files=[files[1]])["error"]


def test_files_outlive_the_sandbox(chat: Chat, http: httpx.Client) -> None:
    made = chat.run("open('kept.txt', 'w').write('3')")
    bearer = {"Authorization": f"Bearer {chat.key}"}
    listed = http.get("/v1/sessions?status=READY", headers=bearer).json()["items"]
    (session,) = [each for each in listed if format_id(each["workspace_id"]) == made["session_id"]]
    assert http.delete(f"/v1/sessions/{session['id']}", headers=bearer).is_success
    assert chat.ask("GET", f"/download/{made['session_id']}/{made['files'][0]['id']}") == b"3"
    again = chat.run("print(open('kept.txt').read())", files=made["files"])
    assert (again["stdout"], again["session_id"]) == ("3\n", made["session_id"])


@pytest.mark.parametrize(
    ("lang", "code", "stdout"),
    [
        ("bash", "echo $1; cat <<'EOF'\nit's\nEOF", "it's\n"),
        ("js", "const os = require('os'); console.log(typeof os.cpus, process.argv.length > 1)", "function true\n"),
        ("ts", "const x: number = 3; console.log(x)", "3\n"),
    ],
)
def test_languages(chat: Chat, home: dict[str, Any], lang: str, code: str, stdout: str) -> None:
    told = chat.run(code, lang, files=home["files"])
    assert (told["stdout"].lstrip("\n"), told["stderr"]) == (stdout, "")


@pytest.mark.sample("doors")
def test_what_went_wrong_is_said_where_the_model_reads_it(chat: Chat, home: dict[str, Any]) -> None:
    files = home["files"]
    assert "ZeroDivisionError" in chat.run("1/0", files=files)["stderr"]
    assert chat.run("exit 3", "bash", files=files)["stderr"] == "The code ended with exit status 3.\n"
    assert "no rustc" in chat.run("fn main() {}", "rs", files=files)["stderr"]
    slow = chat.run("print('begun')\nwhile True: pass", files=files, timeout=5000)
    assert ("Time limit exceeded" in slow["stderr"], slow["stdout"]) == (True, "begun\n")
    told = chat.ask("POST", "/exec", 400, json={"lang": "cobol", "code": "x"})
    assert told["error"].startswith("Unsupported language: 'cobol'; there are py, ")
    assert chat.ask("POST", "/exec", 400, json={"lang": "py"})["error"]
    long = {"lang": "py", "code": "1", "args": ["x" * 20_000]}
    assert "args have at most" in chat.ask("POST", "/exec", 400, json=long)["error"]
    refused = chat.ask("POST", "/exec/programmatic", 501, json={"code": "await f()", "tools": []})
    assert refused["error"] == "unsupported_capability"


def test_a_conversation_that_its_client_names_keeps_its_sandbox(chat: Chat) -> None:
    first = chat.run("touch /tmp/here; mkdir /mnt/data/.d", "bash", runtime_session_hint="chat 1")
    second = chat.run("ls /tmp/here", "bash", runtime_session_hint="chat 1")
    assert (first["runtime_status"], second["runtime_status"]) == ("new", "reused")
    assert first["session_id"] == second["session_id"] == second["runtime_session_id"]
    assert second["stdout"] == "/tmp/here\n"


def test_long_code_runs(chat: Chat, home: dict[str, Any]) -> None:
    """A program's argument has at most 128 KiB."""
    code = f"text = '{'x' * 300_000}'\nprint(len(text), open('kept.txt').read())"
    assert chat.run(code, files=home["files"])["stdout"] == "300000 1\n"


def list_ready(chat: Chat) -> set[str]:
    bearer = {"Authorization": f"Bearer {chat.key}"}
    return {each["id"] for each in chat.http.get("/v1/sessions?status=READY", headers=bearer).json()["items"]}


def test_a_named_conversation_goes_on_when_its_workspace_was_removed(chat: Chat) -> None:
    bearer, before = {"Authorization": f"Bearer {chat.key}"}, list_ready(chat)
    first = chat.run("1", runtime_session_hint="chat 2")
    (session_id,) = list_ready(chat) - before
    assert chat.http.delete(f"/v1/sessions/{session_id}", headers=bearer).is_success
    assert chat.http.delete(f"/v1/workspaces/{parse_id(first['session_id'])}", headers=bearer).is_success
    again = [chat.run("1", runtime_session_hint="chat 2") for _ in range(2)]
    assert [each["runtime_status"] for each in again] == ["new", "reused"]
    assert first["session_id"] != again[0]["session_id"] == again[1]["session_id"]


def test_a_run_that_does_not_come_about_leaves_no_session(chat: Chat) -> None:
    before = list_ready(chat)
    told = chat.ask("POST", "/exec", 400, json={"lang": "py", "code": "1", "args": ["a\0"]})
    assert "NUL" in told["error"]
    inputs = [{**chat.upload("a.txt", b"1"), "name": name} for name in ("x", "x/y")]  # a file in a directory's place
    refused = chat.http.post(
        f"{V1}/exec", headers={"X-API-Key": chat.key}, json={"lang": "py", "code": "1", "files": inputs}
    )
    assert refused.is_client_error
    eventually(lambda: list_ready(chat) == before)


def test_an_upload_that_is_refused_leaves_nothing(chat: Chat) -> None:
    bearer = {"Authorization": f"Bearer {chat.key}"}

    def count() -> int:
        return len(chat.http.get("/v1/workspaces?limit=100", headers=bearer).json()["items"])

    before = count()
    files = [("file", ("a/b", b"1")), ("file", ("a", b"2"))]  # a directory in a file's place
    assert chat.http.post(f"{V1}/upload", headers={"X-API-Key": chat.key}, files=files).is_client_error
    chat.ask("POST", "/upload/batch", 400, files=[("file", ("../a", b"1"))])
    eventually(lambda: count() == before)


def test_a_line_with_all_that_it_quotes_is_short_enough(chat: Chat, home: dict[str, Any]) -> None:
    told = chat.run(f"import sys; print(len(sys.argv[1])) # {'x' * 60_000}", args=["'" * 16_000], files=home["files"])
    assert (told["stdout"], told["stderr"]) == ("16000\n", "")


def test_a_removed_input_is_told_by_the_name_that_it_came_with(chat: Chat, home: dict[str, Any]) -> None:
    inputs = [{**each, "name": each["path"]} for each in home["files"]]
    assert chat.run("import os; os.remove('kept.txt')", files=inputs)["deleted_files"] == ["/mnt/data/kept.txt"]
    chat.run("open('kept.txt', 'w').write('1')", files=home["files"])


@pytest.mark.sample("doors")
def test_more_files_than_are_listed_make_no_answer_wrong(make_service: Callable[..., RunningService]) -> None:
    service = make_service(files_listed=20)
    with httpx.Client(base_url=service.url, timeout=120, trust_env=False) as http:
        chat = make_chat(service, http)
        code = "mkdir node_modules .d many; touch node_modules/{1..30} .d/{1..30} zz.txt"
        first = chat.run(code, "bash")
        assert [each["name"] for each in first["files"]] == ["zz.txt"]
        told = chat.run("touch many/{1..30}; cat zz.txt", "bash", files=first["files"])
        assert (told["stderr"], "deleted_files" in told) == ("", False)
        told = chat.run("echo 1 > zz.txt; cat zz.txt", "bash", files=first["files"])
        assert (told["stdout"], told["stderr"], "deleted_files" in told) == ("1\n", "", False)
        assert told["session_id"] == first["session_id"]


def test_what_is_anothers_is_not_there(service: RunningService, chat: Chat, home: dict[str, Any]) -> None:
    stranger = make_chat(service, chat.http)
    session, file = home["session_id"], home["files"][0]["id"]
    for path in (f"/files/{session}", f"/download/{session}/{file}", f"/sessions/{session}/objects/{file}"):
        stranger.ask("GET", path, 404)
    stranger.ask("DELETE", f"/files/{session}/{file}", 404)
    stranger.ask("POST", "/exec", 404, json={"lang": "py", "code": "1", "session_id": session})


def test_a_token_in_the_address_counts_and_is_in_no_log(
    service: RunningService, chat: Chat, home: dict[str, Any]
) -> None:
    """Newer clients send no credential of their own."""
    where = f"/librechat/{chat.key}/v1/files/{home['session_id']}"
    assert chat.http.get(where).status_code == 200
    assert chat.http.get(where.replace("sandcell_", "sandcell%5F")).status_code == 200
    assert chat.http.get(where.replace(chat.key, "sandcell_wrong")).status_code == 401
    assert chat.http.get(f"{V1}/files/{home['session_id']}").status_code == 401
    assert chat.http.get(f"{service.url}//librechat/{chat.key}//v1/nothing").status_code == 404
    assert chat.http.get(f"/librechat/{chat.key}/exec").status_code == 404
    assert chat.http.get(f"/librechat/{chat.key}").status_code == 404
    rebound = {"Host": "evil.example:1"}
    assert chat.http.get(where.replace(chat.key, ""), headers=rebound).status_code == 421
    assert chat.http.get("/last-of-these").status_code == 401
    eventually(lambda: any("/last-of-these" in line for line in service.output))
    secret = chat.key.removeprefix("sandcell_")
    assert not any(secret in line for line in service.output)
    with service.client() as admin:
        addresses = [record.target for record in admin.list_audit(limit=50).items]
    assert f"GET {V1}/nothing" in addresses
    assert not any(secret in each for each in addresses)
