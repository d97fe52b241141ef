"""Kernels that real images declare are languages of their sessions: R, bash and Octave. The images take minutes."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import nbformat
import png
import pytest

from kernels.environment import Environment
from kernels.images.kernelspecs import read_kernelspecs
from kernels.notebook import chain
from kernels.sandbox import RuntimeSettings
from sandcell.attaching import lab_config
from tests.browser.chromium import chromium
from tests.conformance.jupyter import client_environments
from tests.conformance.jupyter.lab import answers, run_when_idle, running_lab, until
from tests.conftest import MakeService
from tests.integration.kernel_gateway.faces.jupyter.wire import reply_of, text_of, wire
from tests.integration.kernels.images.dockerfiles import build, run
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def analysis(
    base: Path, variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory, short_directory: Path
) -> Environment:
    """The image with R, in a directory of environments that a service may read."""
    place = tmp_path_factory.mktemp("analysis")
    place.chmod(0o755)
    return build("debian-r", base, variables, RuntimeSettings("runc", place / "trials", short_directory), place)


def test_an_image_with_r_runs_it(analysis: Environment, settings: RuntimeSettings) -> None:
    assert run(
        analysis, settings, "import numpy; print(int(numpy.arange(4).sum()))\n!Rscript -e 'cat(mean(c(1, 2, 6)))'"
    ) == ("6\n3")
    (r,) = read_kernelspecs(analysis.root, analysis.python)
    assert (r.name, r.language, r.language_name) == ("ir", "r", "R")
    assert run(analysis, settings, "x <- c(1, 2, 6)\ncat(mean(x))\ninvisible(x)", r) == "3"


@pytest.fixture(scope="module")
def with_r(analysis: Environment, make_service: MakeService) -> RunningService:
    return make_service(environments_dir=Path(analysis.root).parents[2], invocations_per_second=1000)


def shown(result: Any) -> list[str]:
    """What an execution displayed, as text."""
    assert result.status == "ok", result
    return [each["data"]["text/plain"] for each in result.outputs if "data" in each]


def test_r_is_a_language_of_sessions(with_r: RunningService) -> None:
    with with_r.client() as client, client.session("debian-r") as session:
        assert shown(session.run("x <- c(1, 2, 6); mean(x)", language="r")) == ["[1] 3"]
        plotted = session.run("plot(x)", language="r", timeout_seconds=300)
        (plot,) = [each["data"]["image/png"] for each in plotted.outputs if "image/png" in each.get("data", {})]
        assert len(set(png.Reader(bytes=base64.b64decode(plot)).read_flat()[2])) > 1
        failed = session.run("stop('broken')", language="r")
        assert (failed.status, failed.error is not None and "broken" in failed.error.value) == ("error", True)
        assert session.run("while (TRUE) {}", language="r", timeout_seconds=1).status == "timeout"
        running = session.submit("cat('begun'); Sys.sleep(600)", language="r")
        for event in session.events(running.id):
            if event.event == "stream":
                session.interrupt()
        assert client.get_execution(session.id, running.id).status == "interrupted"
        assert shown(session.run("x", language="r")) == ["[1] 1 2 6"]
        assert shown(session.run("6 * 7")) == ["42"]
        session.restart()
        assert shown(session.run("exists('x')", language="r")) == ["[1] FALSE"]


def test_r_is_replayed_by_r(with_r: RunningService) -> None:
    with with_r.client() as client, client.session("debian-r") as session:
        session.run("y <- 1:10; sum(y)", language="r")
        session.run("print(sum(range(11)))")
        session.run("cat(y[3], file = 'third'); readLines('third', warn = FALSE)", language="r")
        replay = client.replay(session.notebook(), environment="debian-r")
    assert (replay.same, replay.counts) == (True, {"same": 3}), replay


def test_jupyter_clients_attach_to_r(with_r: RunningService) -> None:
    headers = {"Authorization": f"token {with_r.token}"}
    with httpx.Client(base_url=with_r.url, headers=headers, timeout=300, trust_env=False) as http:
        spec = http.get("/api/kernelspecs").json()["kernelspecs"]["debian-r.ir"]["spec"]
        assert (spec["language"], spec["display_name"]) == ("R", "R (sandcell: debian-r)")
        kernel = http.post("/api/kernels", json={"name": "debian-r.ir"}).json()
        with wire(with_r.url, kernel["id"], with_r.token) as client:
            info = client.finished(client.send("shell", "kernel_info_request", {}))
            assert reply_of(info)["content"]["language_info"]["name"] == "R"
            assert text_of(client.run("z <- 41; cat(z + 1)")) == "42"
            completed = client.finished(client.send("shell", "complete_request", {"code": "media", "cursor_pos": 5}))
            assert "median" in reply_of(completed)["content"]["matches"]
            ask = client.execute("cat(toupper(readline('name? ')))", allow_stdin=True)
            client.until(lambda each: each["header"]["msg_type"] == "input_request")
            client.send("stdin", "input_reply", {"value": "Ada", "status": "ok"})
            assert "ADA" in text_of(client.finished(ask))
        assert http.delete(f"/api/kernels/{kernel['id']}").status_code == 204


def test_a_person_plots_with_r_in_jupyterlab(with_r: RunningService, environments_dir: Path, tmp_path: Path) -> None:
    """The picture of the page stays in the data directory, to be looked at."""
    picture = environments_dir.parent / "jupyterlab-r.png"
    configuration = lab_config.write(tmp_path / "configuration", with_r.url, with_r.token).parent
    program = client_environments.installed("jupyterlab", environments_dir.parent)
    kernelspec = {"name": "debian-r.ir", "display_name": "R", "language": "R"}
    cell = "x <- seq(-pi, pi, length.out = 200)\nplot(x, sin(x), type = 'l', main = R.version$language)\ncat(sum(1:10))"

    async def look() -> list[str]:
        with running_lab(program, configuration, tmp_path, cell, kernelspec=kernelspec) as lab:
            await until(lambda: answers(lab("api/status")))
            async with chromium(tmp_path / "browser") as page:
                await page.visit(lab("lab/tree/look.ipynb"))
                said = await run_when_idle(page, picture)
                assert await page.evaluate("document.querySelector('.jp-Toolbar-kernelName').innerText.trim()") == (
                    "R (sandcell: debian-r)"
                )
                return said

    said = asyncio.run(look())
    assert "55" in "".join(said)
    assert picture.stat().st_size > 10_000
    with with_r.client() as client:
        live = [each for each in client.list_sessions().items if each.status == "READY"]
        (session,) = [each for each in live if each.labels.get("jupyter_kernel") == "ir"]
        assert [each.language for each in client.list_executions(session.id).items] == ["r"]
        client.stop_session(session.id)


@dataclass(frozen=True)
class Trial:
    """A language of the image `languages`, and cells in it: what each is to show. Without an `error` it is output."""

    language: str
    runtime: str
    title: str
    spelled: str
    remember: str
    recall: str
    recalled: str
    fail: str
    error: tuple[str, str] | None
    complaint: str
    wait: str
    typed: str
    completed: str


BASH = Trial(
    "bash",
    "bash",
    "Bash",
    "bash",
    remember="kept=41; cd /tmp; double() { echo $(($1 * 2)); }",
    recall="echo $((kept + 1)) $PWD; double 21",
    recalled="42 /tmp\n42\n",
    fail="ls /nowhere",
    error=("Error", "2"),
    complaint="ls: cannot access",
    wait="echo begun; sleep 600",
    typed="decl",
    completed="declare",
)
OCTAVE = Trial(
    "octave",
    "octave",
    "Octave",
    "octave",
    remember="kept = [1 2 6]; cd /tmp",
    recall="printf('%d %s\\n', mean(kept) + 39, pwd())",
    recalled="42 /tmp\n",
    fail="error('broken')",
    error=None,
    complaint="error: broken",
    wait="disp('begun'); pause(600)",
    typed="media",
    completed="median",
)


@pytest.fixture(scope="module")
def languages(
    base: Path, variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory, short_directory: Path
) -> Environment:
    """The image with bash's and Octave's kernels."""
    place = tmp_path_factory.mktemp("languages")
    place.chmod(0o755)
    return build("languages", base, variables, RuntimeSettings("runc", place / "trials", short_directory), place)


@pytest.fixture(scope="module")
def with_languages(languages: Environment, make_service: MakeService) -> RunningService:
    return make_service(environments_dir=Path(languages.root).parents[2], invocations_per_second=1000)


@pytest.mark.parametrize("trial", [BASH, OCTAVE], ids=lambda trial: trial.language)
def test_a_declared_kernel_is_a_language_of_sessions(with_languages: RunningService, trial: Trial) -> None:
    with with_languages.client() as client, client.session("languages") as session:

        def ran(code: str, **how: Any) -> Any:
            return session.run(code, language=trial.language, **{"timeout_seconds": 300, **how})

        def recalled() -> str:
            return as_lines(ran(trial.recall).stdout)

        assert ran(trial.remember).status == "ok"
        assert recalled() == trial.recalled
        failed = ran(trial.fail)
        error = failed.error and (failed.error.name, failed.error.value)
        assert (failed.status, error) == ("error" if trial.error else "ok", trial.error)
        assert trial.complaint in failed.stdout
        assert ran(trial.wait, timeout_seconds=2).status == "timeout"
        assert recalled() == trial.recalled
        running = session.submit(trial.wait, language=trial.language)
        for event in session.events(running.id):
            if event.event == "stream":
                session.interrupt()
        assert client.get_execution(session.id, running.id).status == "interrupted"
        assert recalled() == trial.recalled

        book = nbformat.reads(session.notebook().decode(), 4)
        nbformat.validate(book)
        about = {"name": trial.runtime, "display_name": trial.title, "language": trial.spelled}
        assert (book.metadata.kernelspec, book.metadata.language_info) == (about, {"name": trial.spelled})
        assert chain.verify(book).whole
        assert session.run("6 * 7").outputs[0]["data"]["text/plain"] == "42"
        session.restart()
        assert recalled() != trial.recalled


def as_lines(shown: str) -> str:
    """What Octave's kernel shows comes through a terminal."""
    return shown.replace("\r\n", "\n")


@pytest.mark.parametrize("trial", [BASH, OCTAVE], ids=lambda trial: trial.language)
def test_its_notebook_is_replayed_by_it(with_languages: RunningService, trial: Trial) -> None:
    with with_languages.client() as client, client.session("languages") as session:
        for code in (trial.remember, trial.recall, trial.fail):
            session.run(code, language=trial.language)
        replay = client.replay(session.notebook(), environment="languages")
    assert (replay.same, replay.counts) == (True, {"same": 3}), replay


@pytest.mark.parametrize("trial", [BASH, OCTAVE], ids=lambda trial: trial.language)
def test_jupyter_clients_attach_to_it(with_languages: RunningService, trial: Trial) -> None:
    headers = {"Authorization": f"token {with_languages.token}"}
    with httpx.Client(base_url=with_languages.url, headers=headers, timeout=300, trust_env=False) as http:
        name = f"languages.{trial.runtime}"
        spec = http.get("/api/kernelspecs").json()["kernelspecs"][name]["spec"]
        assert (spec["language"], spec["display_name"]) == (trial.spelled, f"{trial.title} (sandcell: languages)")
        kernel = http.post("/api/kernels", json={"name": name}).json()
        with wire(with_languages.url, kernel["id"], with_languages.token) as client:
            info = reply_of(client.finished(client.send("shell", "kernel_info_request", {})))["content"]
            assert info["language_info"]["name"] == trial.language
            client.run(trial.remember)
            assert as_lines(text_of(client.run(trial.recall))) == trial.recalled
            asked = {"code": trial.typed, "cursor_pos": len(trial.typed)}
            completed = reply_of(client.finished(client.send("shell", "complete_request", asked)))["content"]
            assert trial.completed in completed["matches"]
            waiting = client.execute(trial.wait, stop_on_error=False)
            client.until_shown("begun")
            assert http.post(f"/api/kernels/{kernel['id']}/interrupt").status_code == 204
            client.finished(waiting)
            assert as_lines(text_of(client.run(trial.recall))) == trial.recalled
        assert http.delete(f"/api/kernels/{kernel['id']}").status_code == 204
