"""Packages in sessions: installed from an index of the tests' own where one is declared, refused elsewhere."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator

import pytest

from tests.doubles.package_index import NAME, PASSWORD, PackageIndex, package_index
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import Rest
from tests.integration.kernel_gateway.services.environments.own_packages import (
    GUEST_WAS_HERE,
    add_own,
    await_build,
    layers,
    make,
    refusal,
)
from tests.running_service import RunningService

WAYS = ("%pip install {}", "!pip install {}", "!python3 -m pip install {}", "!pip download --no-deps {}")


@pytest.mark.sample("packages")
def test_without_an_index_pip_says_at_once_what_the_mode_allows_and_what_has_the_package(
    service: RunningService,
) -> None:
    with Rest(service) as rest, rest.session() as session:
        (numpy,) = rest.get("/v1/environments/python/packages?name=numpy")["items"]
        for way in WAYS:
            said = session.run(way.format("no-such-package"))["stdout"]
            assert said.count("ERROR") == 1, said
            assert "so no-such-package cannot be installed here: no environment of this service has it" in said
        said = session.run("!pip --no-color install numpy==0.1 2>&1 >/dev/null")["stdout"].strip()
        assert said == (
            "ERROR: Network mode SANDBOX reaches no package index, so numpy cannot be installed here: "
            f"of this service's environments python ({numpy['version']}) has it"
        )
        assert "already satisfied" in session.run("!pip install numpy")["stdout"]
        command = rest.post(f"{session.path}/commands", command="pip install no-such-package")
        assert "no environment of this service has it" in command["stderr"]


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    with package_index() as index:
        yield index


@pytest.fixture(scope="module")
def indexed(
    make_service: Callable[..., RunningService], index: PackageIndex, tmp_path_factory: pytest.TempPathFactory
) -> RunningService:
    """A service with an environment that reaches nothing but the index."""
    file = tmp_path_factory.mktemp("indexed") / "environments.toml"
    table = f'image = "python"\nindex_url = "{index.url}"\n'
    file.write_text(f"[indexed]\n{table}[kept]\n{table}keep_packages = true\n")
    return make_service(
        environments_file=file,
        added_packages_images="indexed",
        added_images_per_principal=2,
        invocations_per_second=1000,
    )


ELSEWHERE = """
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://example.org")
except urllib.error.HTTPError as error:
    print(error.code, error.reason)
"""
SECRETS = """
import base64, os, pathlib, subprocess
asked = "env; pip config list; cat ~/.config/uv/uv.toml; cat /proc/self/environ"
said = subprocess.run(asked, shell=True, capture_output=True)
text = repr(said.stdout) + repr(dict(os.environ))
wanted = ({name!r}, {password!r}, base64.b64encode({both!r}.encode()).decode())
print([each for each in wanted if each in text])
"""


@pytest.mark.sample("packages")
def test_packages_come_from_the_operators_index_and_from_nowhere_else(
    indexed: RunningService, index: PackageIndex
) -> None:
    wheel = index.add("tiny-sample", sample="GREETING = 'installed'")
    index.add("other-sample", other="GREETING = 'by uv'")
    index.add_installed("uv")
    wrong = index.add("wrong-sample", wrong="")
    index.wrong_hashes.add(wrong)
    index.json_pages = False
    with Rest(indexed) as rest, rest.session(environment="indexed") as session:

        def run(code: str) -> str:
            outcome = session.run(code)
            assert outcome["status"] == "ok", outcome
            return str(outcome["stdout"])

        assert "Successfully installed tiny-sample-1.0" in run("%pip install tiny-sample")
        assert run("import sample\nprint(sample.GREETING, sample.__file__)").startswith("installed /home/user/.local/")
        rest.post(f"{session.path}/restart")
        assert run("import sample\nprint(sample.GREETING)") == "installed\n"

        fetched = index.visits.count(f"/root/files/tiny-sample/{wheel}")
        again = run("!pip install --no-cache-dir --force-reinstall tiny-sample")
        assert "Successfully installed tiny-sample-1.0" in again
        assert index.visits.count(f"/root/files/tiny-sample/{wheel}") == fetched == 1

        assert "Successfully installed uv" in run("!pip install uv")
        assert "other-sample==1.0" in run("!uv pip install other-sample")
        assert run("import other\nprint(other.GREETING, other.__file__)").startswith("by uv /home/user/.local/")

        said = run("!pip --no-color install no-such-package 2>&1 >/dev/null")
        assert re.fullmatch(r"ERROR: The package index 127.0.0.1:\d+, which .*, has no no-such-package\s*", said), said
        assert "Successfully installed" not in run("!pip install wrong-sample")
        assert run(SECRETS.format(name=NAME, password=PASSWORD, both=f"{NAME}:{PASSWORD}")) == "[]\n"
        assert "403 Network mode SANDBOX" in run(ELSEWHERE)

        network = session.show()["network"]
        assert network["index_url"] == f"http://127.0.0.1:{index.port}/root/simple/"
        assert network["used"]["received_bytes"] > 1000
        told = rest.get(f"/v1/audit?session_id={session.id}&kind=egress&event=packages&limit=1000")["items"]
        assert {f"{network['index_url']}tiny-sample/", f"{network['index_url']}tiny-sample/{wheel}"} <= {
            each["target"] for each in told
        }
        assert any(each["reason"].startswith("cache: ") for each in told)
        assert {each["reason"].partition(":")[0] for each in told if not each["allowed"]} == {"hash"}
        assert PASSWORD not in repr(told)
    kept = {each.name for each in (indexed.data_dir / "state/packages").iterdir()}
    whole = [files for name, files in index.packages.items() if name != "wrong-sample"]
    assert kept == {hashlib.sha256(data).hexdigest() for files in whole for data in files.values()}


@pytest.mark.sample("packages")
def test_kept_packages_are_there_in_the_next_session_on_the_workspace(
    indexed: RunningService, index: PackageIndex
) -> None:
    index.add("kept-sample", kept="GREETING = 'kept'")
    index.add("uv-sample", by_uv="")
    index.add_installed("uv")
    show = "import kept\nprint(kept.GREETING, kept.__file__)"
    place = "kept /workspace/.sandcell/packages/lib/python3.11/site-packages/kept.py\n"
    with Rest(indexed) as rest:
        with rest.session(environment="kept") as first:
            assert "Successfully installed kept-sample" in first.run("%pip install kept-sample")["stdout"]
            assert first.run(show)["stdout"] == place
            said = first.run("!pip install --target /tmp/uv uv && /tmp/uv/bin/uv pip install uv-sample 2>&1")["stdout"]
            assert "uv-sample==1.0" in said
            assert "warning" not in said
        with rest.session(environment="kept", workspace_id=first.workspace_id) as second:
            assert second.run(show)["stdout"] == place
            assert "kept-sample" in second.run("!pip list --user --format=freeze")["stdout"]
            said = second.run("!pip --no-color install no-such-package 2>&1 >/dev/null")["stdout"]
            assert "has no no-such-package" in said
        listed = rest.get(f"/v1/workspaces/{first.workspace_id}/files?path=.sandcell/packages&recursive=true")["items"]
        assert any(each["path"].endswith("/kept.py") for each in listed)


OWN = f"""
import glob, importlib.metadata, shutil, subprocess, sys, own
print(own.GREETING, own.__cached__)
print(importlib.metadata.version("own-sample"), shutil.which("greet-own"))
print(subprocess.run([sys.executable, "-c", "import own; print(own.GREETING)"], capture_output=True).stdout)
print(subprocess.run("greet-own", capture_output=True).stdout)
print(glob.glob("{GUEST_WAS_HERE}-0"))
"""
PLACE = "/opt/sandcell/packages/lib/python3.11/site-packages"


@pytest.mark.sample("packages")
def test_packages_are_built_into_an_environment_of_the_principals_own_and_removed_with_it(
    indexed: RunningService, index: PackageIndex
) -> None:
    add_own(index)
    with Rest(indexed) as rest:
        index.held.clear()
        made, asked = make(rest, "mine", "own-sample==1.0"), len(index.visits)
        eventually(lambda: len(index.visits) > asked)
        eventually(lambda: "Looking in indexes" in rest.get("/v1/environments/mine")["build_log"])
        index.held.set()
        assert refusal(rest, "/v1/sessions", environment="mine")[:2] == (409, "environment_unavailable")
        ready = await_build(rest, "mine")
        assert (ready["status"], ready["failure"]) == ("READY", ""), ready
        assert "Successfully installed own-sample-1.0" in ready["build_log"]
        assert PASSWORD not in str(ready)
        assert layers(indexed) == [ready["digest"].replace(":", "-")]
        (listed,) = rest.get("/v1/environments/mine/packages?name=own-sample")["items"]
        assert (listed["version"], listed["source"]) == ("1.0", "pip")

        (image,) = [each for each in rest.get("/v1/images")["items"] if each["owner"]]
        assert (image["digest"], image["environments"]) == (ready["digest"], [made["id"]])
        assert (image["owner"], image["name"], image["description"].rpartition("; ")[2]) == (
            "admin",
            "python",
            "with own-sample==1.0",
        )
        for name in ("mine", image["digest"]):
            assert rest.get(f"/v1/images/{name}")["image"] == image
            parts = rest.get(f"/v1/images/{name}/sbom")["components"]
            assert {"own-sample", "numpy"} <= {each["name"] for each in parts}
        twin, visits = make(rest, "twin", "own-sample==1.0"), len(index.visits)
        assert await_build(rest, twin["id"])["digest"] == ready["digest"]
        assert len(index.visits) == visits, "the same list over the same image is built once"
        status, code, _ = refusal(rest, "/v1/environments", name="third", image="indexed", packages=["tqdm"])
        assert (status, code) == (409, "quota_reached")
        token = rest.post("/v1/tokens", principal="other")["token"]
        with Rest(indexed, token) as other:
            assert all(each["kind"] == "host" for each in other.get("/v1/environments")["items"])
            theirs = other.http.get(f"/v1/environments/{made['id']}")
            assert (theirs.status_code, theirs.json()["error"]["code"]) == (404, "unknown_environment")
            assert not [each for each in other.get("/v1/images")["items"] if each["owner"]]
            for path in (f"/v1/images/{ready['digest']}", f"/v1/images/{ready['digest']}/sbom", "/v1/images/mine"):
                assert other.http.get(path).status_code == 404
            unknown = other.http.get(f"/v1/environments/mine-{'0' * 10}")
            assert unknown.json()["error"]["message"] == theirs.json()["error"]["message"].replace(
                made["id"], f"mine-{'0' * 10}"
            )
        with rest.session(environment="mine") as session:
            outcome = session.run(OWN)
            assert outcome["status"] == "ok", outcome
            assert outcome["stdout"].splitlines() == [
                f"of my own {PLACE}/__pycache__/own.cpython-311.pyc",
                "1.0 /opt/sandcell/packages/bin/greet-own",
                r"b'of my own\n'",
                r"b'of my own\n'",
                "[]",
            ]
            assert session.run("a kernel of my own", language="shout")["stdout"] == "A KERNEL OF MY OWN\n"
            refused = rest.http.delete("/v1/environments/mine")
            assert refused.json()["error"]["code"] == "has_dependents"
            assert refused.json()["error"]["dependents"]["sessions"] == [session.id]
        assert rest.http.delete("/v1/environments/mine").is_success
        assert len(layers(indexed)) == 1, "the twin has it"
        assert rest.http.delete("/v1/environments/twin").is_success
        eventually(lambda: layers(indexed) == [])
        told = rest.get("/v1/audit?event=BuildEnvironment")["items"]
        assert [(each["allowed"], each["target"]) for each in told] == [(True, twin["id"]), (True, made["id"])]
