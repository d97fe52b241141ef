"""The example for people who come from AWS does what its page shows, with stock boto3 and nothing but variables set."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.running_service import RunningService

EXAMPLE = Path(__file__).parents[3] / "examples" / "agentcore"


def shown(script: str) -> str:
    """What the page shows of a script's output."""
    page = (EXAMPLE / "README.md").read_text()
    found = re.search(rf"^\$ .*/{re.escape(script)}\n(.*?)^(?:\$ |```)", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    """The script, run by a user without an AWS account who has set these variables."""
    others = ("AWS_", "BEDROCK_", "SANDCELL_")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    nothing = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    region = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": "us-east-1"}
    return subprocess.run(
        [sys.executable, EXAMPLE / "with_boto3.py"],
        env={**plain, **nothing, **region, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_script_says_what_its_page_shows(service: RunningService) -> None:
    with service.client() as client:
        key = client.create_key("somebody-from-aws", "the example")
        assert key.secret_access_key is not None
        done = run(
            AWS_ACCESS_KEY_ID=key.id,
            AWS_SECRET_ACCESS_KEY=key.secret_access_key,
            AWS_ENDPOINT_URL_BEDROCK_AGENTCORE=service.url,
        )
        assert (done.stdout, done.stderr, done.returncode) == (shown("with_boto3.py"), "", 0)


def test_without_the_address_it_refuses_to_run_at_aws() -> None:
    done = run(AWS_ACCESS_KEY_ID="SCAKAAAAAAAAAAAAAAAA", AWS_SECRET_ACCESS_KEY="x" * 40)
    assert (done.stdout, done.returncode) == ("", 1)
    assert "AWS_ENDPOINT_URL_BEDROCK_AGENTCORE is not set" in done.stderr
