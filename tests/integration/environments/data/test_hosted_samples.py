"""What the samples of hosted interpreters do, on `data`, through the faces that their clients speak to.

The cells do what AWS's public notebooks have an agent do: a table of 300,000 people is uploaded, described, searched
for outliers and plotted. Nothing is declared: the image is built, and both faces choose it by themselves.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.oci import environments
from tests.conftest import MakeService
from tests.integration.environments.data.pictures import assert_drawn
from tests.integration.kernel_gateway.faces.agent_engine.google import Google, connect
from tests.integration.kernel_gateway.faces.agentcore.conftest import KEY, SECRET, Caller, Live
from tests.running_service import RunningService

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROWS = 300_000
COLUMNS = {
    "Name": ("Ada", "Grace", "Edsger", "Barbara", "Kimberly", "Niklaus"),
    "Preferred_City": ("Ulm", "Oslo", "Porto", "Lyon"),
    "Preferred_Animal": ("Crocodile", "Owl", "Fox", "Heron", "Lynx"),
    "Preferred_Thing": ("Kettle", "Lamp", "Loom"),
}

DESCRIBE = """
import pandas as pd
people = pd.read_csv("data.csv")
print(people.shape)
print(people.describe(include="all").loc[["count", "unique"]])
print(people.isna().sum().sum(), people.duplicated().any())
"""
OUTLIERS = """
import numpy as np
from scipy import stats
counts = people["Name"].value_counts()
scores = pd.Series(stats.zscore(counts), index=counts.index)
low, high = np.percentile(counts, [25, 75])
fence = low - 1.5 * (high - low), high + 1.5 * (high - low)
outside = counts[(counts < fence[0]) | (counts > fence[1])]
table = pd.crosstab(people["Name"], people["Preferred_Animal"])
chi_square, p, freedom, _ = stats.chi2_contingency(table)
print(list(outside.index), scores.idxmin(), freedom, p < 0.001)
"""
QUESTION = """
chosen = people[(people.Name == "Kimberly") & (people.Preferred_Animal == "Crocodile")]
print(len(chosen))
"""
PLOT = """
import matplotlib.pyplot as plt
import seaborn as sns
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
left.bar(counts.index, counts)
left.set_title("Names")
sns.heatmap(table, ax=right)
plt.tight_layout()
plt.savefig("people.png")
print("drawn")
"""


@pytest.fixture(scope="module")
def service(
    make_service: MakeService, environments_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> RunningService:
    """A service that began with `python` alone; `data` is built while it runs."""
    images = tmp_path_factory.mktemp("built")
    images.chmod(0o755)
    (images / "python").symlink_to(environments_dir / "python")
    running = make_service(environments_dir=images, access_key_id=KEY, secret_access_key=SECRET)
    assert "on the service's host, builds it" in run(running, "--environment", "data", "1").stderr
    assert "data" in environments.find_installed(environments_dir), "make test-data builds the image first"
    (images / "data").symlink_to(environments_dir / "data")
    return running


def run(service: RunningService, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandcell", "run", *arguments],
        env={"SANDCELL_URL": service.url, "SANDCELL_TOKEN": service.token, "HOME": str(service.data_dir)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def people() -> list[tuple[str, ...]]:
    """Of Kimberly there are few, and she likes crocodiles."""
    rng = random.Random(5)
    names = COLUMNS["Name"]
    rows = []
    for _ in range(ROWS):
        name = "Kimberly" if rng.random() < 0.001 else rng.choice([each for each in names if each != "Kimberly"])
        _, *others = COLUMNS.values()
        city, animal, thing = map(rng.choice, others)
        rows.append((name, city, "Crocodile" if name == "Kimberly" and rng.random() < 0.5 else animal, thing))
    return rows


@pytest.fixture(scope="module")
def agentcore(service: RunningService) -> Iterator[Live]:
    live = Caller(service).start()
    yield live
    live.stop()


def test_the_sample_of_data_analysis_runs_on_agentcore(agentcore: Live, people: list[tuple[str, ...]]) -> None:
    text = "\n".join(",".join(row) for row in [tuple(COLUMNS), *people]) + "\n"
    assert agentcore.call("writeFiles", content=[{"path": "data.csv", "text": text}])["isError"] is False
    listed = agentcore.call("listFiles", path="")["content"]
    assert "data.csv" in json.dumps(listed)
    assert f"({ROWS}, 4)" in agentcore.code(DESCRIBE)
    assert agentcore.code(OUTLIERS).split() == ["['Kimberly']", "Kimberly", "20", "True"]
    wanted = sum((row[0], row[2]) == ("Kimberly", "Crocodile") for row in people)
    assert agentcore.code(QUESTION) == str(wanted)
    assert agentcore.code(PLOT) == "drawn"
    (block,) = agentcore.call("readFiles", paths=["people.png"])["content"]
    assert_drawn(block["resource"]["blob"])


def test_it_is_there_for_the_command_and_over_rest(service: RunningService) -> None:
    """With no line of configuration, and without a restart of the service."""
    done = run(service, "--environment", "data", "from scipy import stats; print(stats.norm.ppf(0.5))")
    assert (done.stdout.strip(), done.returncode) == ("0.0", 0), done.stderr
    with service.client() as client:
        session, *_ = client.list_sessions(status="READY").items  # the newest is the first
        assert session.environment == "data"
        assert client.run(session.id, "stats.norm.cdf(0)").outputs[0]["data"]["text/plain"] == "np.float64(0.5)"
        client.stop_session(session.id)
        with client.session("data") as another:
            assert another.run("import sklearn; print(sklearn.__name__)").stdout == "sklearn\n"


def test_agentcore_and_agent_engine_choose_the_image(service: RunningService, agentcore: Live) -> None:
    with service.client() as client, connect(service) as http:
        google = Google.make(http)
        try:
            code = (
                "import scipy.stats, seaborn; print(round(scipy.stats.norm.cdf(0), 3)); open('a.txt', 'w').write('a')"
            )
            said = google.run(code)
            assert (said.out.strip(), said.err, said.files) == ("0.5", "", {"a.txt": b"a"})
            assert {each.environment for each in client.list_sessions(status="READY").items} == {"data"}
        finally:
            google.close()
