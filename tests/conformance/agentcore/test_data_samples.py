"""What AWS's samples have an agent do with a table, on the image `data`, which the door chooses where it is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.oci import environments
from tests.conformance.agentcore.accounts import Session
from tests.integration.environments.data.pictures import assert_drawn

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROWS = "species,length,width\n" + "".join(
    f"{name},{base + number / 10:.1f},{base / 2 + (number * 7 % 10) / 20:.2f}\n"
    for name, base in (("setosa", 1), ("virginica", 5))
    for number in range(40)
)
SCIPY = """
import pandas as pd
from scipy import stats
flowers = pd.read_csv("flowers.csv")
parts = [part["length"] for _, part in flowers.groupby("species")]
found = stats.ttest_ind(*parts)
together = stats.pearsonr(*[part.to_numpy() for part in parts])
print(flowers.shape, bool(found.pvalue < 0.001), round(float(together[0]), 3))
"""
SEABORN = """
import matplotlib.pyplot as plt
import seaborn as sns
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
sns.scatterplot(flowers, x="length", y="width", hue="species", ax=left)
sns.boxplot(flowers, x="species", y="length", ax=right)
plt.tight_layout()
plt.show()
"""
SKLEARN = """
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay, accuracy_score
from sklearn.model_selection import train_test_split
train, test = train_test_split(flowers, random_state=0, stratify=flowers["species"])
model = LogisticRegression().fit(train[["length", "width"]], train["species"])
said = model.predict(test[["length", "width"]])
ConfusionMatrixDisplay.from_predictions(test["species"], said)
plt.plot([0, 1], [0, 1], color="#1f77b4")
plt.savefig("confusion.png")
plt.close("all")
print(accuracy_score(test["species"], said))
"""
COUNT = "console.log(require('fs').readFileSync('flowers.csv', 'utf8').trim().split('\\n').length)"


@pytest.fixture(scope="module")
def analysis(environments_dir: Path, data: Any, start: Callable[..., Session]) -> Session:
    assert "data" in environments.find_installed(environments_dir), "make test-long builds the image first"
    session = start(data, name="analysis")
    assert session.call("writeFiles", content=[{"path": "flowers.csv", "text": ROWS}])["isError"] is False
    return session


def read_picture(session: Session, path: str) -> bytes:
    (block,) = session.call("readFiles", paths=[path])["content"]
    assert block["resource"]["mimeType"] == "image/png"
    return bytes(block["resource"]["blob"])


def test_a_table_is_tested_plotted_and_classified(analysis: Session) -> None:
    assert analysis.code(SCIPY) == "(80, 3) True 1.0"
    shown = analysis.call("executeCode", code=SEABORN, language="python")
    assert shown["isError"] is False, shown
    assert "figure-1.png" in json.dumps(shown["content"], default=str)
    assert_drawn(read_picture(analysis, "figure-1.png"))
    assert float(analysis.code(SKLEARN)) > 0.9
    assert_drawn(read_picture(analysis, "confusion.png"))


def test_node_reads_the_same_table(analysis: Session) -> None:
    assert analysis.code(COUNT, "javascript", runtime="nodejs") == "81"
    ran = analysis.call("executeCommand", command=f'node -e "{COUNT}"')
    assert (ran["isError"], ran["structuredContent"]["stdout"].strip()) == (False, "81")
