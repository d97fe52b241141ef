"""S3 requests and megabytes by an execution role, out of a sandbox, against the same program on the host with keys.

Both speak in turn to the same S3 server on this machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.running_service import RunningService

CLIENT = """
import json, os, time
import boto3
from botocore.config import Config

s3 = boto3.client('s3', config=Config(request_checksum_calculation='when_required'))

def seconds(call, **arguments):
    begun = time.perf_counter()
    answer = getattr(s3, call)(Bucket={bucket!r}, **arguments)
    if 'Body' in answer:
        for _ in answer['Body'].iter_chunks(1 << 16):
            pass
    return time.perf_counter() - begun

small, large, body = 'role/small', 'role/large', bytes({megabytes} * 1000000)
s3.put_object(Bucket={bucket!r}, Key=small, Body=b'x')
print(json.dumps({{
    'head': [seconds('head_object', Key=small) for _ in range({requests})],
    'list': [seconds('list_objects_v2', Prefix='role/') for _ in range({requests})],
    'up': [seconds('put_object', Key=large, Body=body) / {megabytes}],
    'down': [seconds('get_object', Key=large) / {megabytes}],
}}))
"""
WHAT = {"head": "a HeadObject", "list": "a listing", "up": "a MB up", "down": "a MB down"}


def run(service: RunningService, environments_dir: Path, *, rounds: int = 10) -> str:
    megabytes, requests = (1, 3) if rounds < 10 else (30, 30)
    program = CLIENT.format(bucket=BUCKET, megabytes=megabytes, requests=requests)
    direct: dict[str, list[float]] = {what: [] for what in WHAT}
    through: dict[str, list[float]] = {what: [] for what in WHAT}
    with tempfile.TemporaryDirectory(prefix="scrole", dir="/tmp") as name, s3_server("rclone", Path(name)) as endpoint:
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]}
        service.stop()
        serving = RunningService(service.data_dir, _settings(environments_dir, Path(name), endpoint), keys)
        serving.start()
        try:
            here = {**os.environ, **keys, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": endpoint}
            with serving.client() as client, client.session("role") as session:
                for _ in range(rounds):
                    done = subprocess.run(
                        [sys.executable, "-c", program], env=here, capture_output=True, text=True, check=True
                    )
                    _add(direct, done.stdout)
                    there = session.run(program, timeout_seconds=120)
                    assert there.ok, there.text
                    _add(through, there.stdout)
        finally:
            serving.stop()
    return "; ".join(_compared(what, direct[what], through[what]) for what in WHAT)


def _settings(environments_dir: Path, directory: Path, endpoint: str) -> dict[str, object]:
    file = directory / "environments.toml"
    role = f'bucket = "{BUCKET}", prefix = "role", access = "read-write", endpoint_url = "{endpoint}"'
    file.write_text(f'[role]\nimage = "python"\nrole = {{{role}}}\n')
    return {
        "environments_dir": environments_dir,
        "environments_file": file,
        "invocations_per_second": 10_000,
        "egress_sent_bytes": 10**12,
        "egress_received_bytes": 10**12,
    }


def _add(found: dict[str, list[float]], printed: str) -> None:
    for what, seconds in json.loads(printed).items():
        found[what] += seconds


def _compared(what: str, direct: list[float], through: list[float]) -> str:
    """The medians of both, in milliseconds, and how they compare."""
    one, other = statistics.median(direct) * 1000, statistics.median(through) * 1000
    return f"{WHAT[what]} {one:.2f} ms with keys, {other:.2f} ms by a role ({other / one:.1f} times)"
