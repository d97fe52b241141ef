"""A sandbox and the image that it runs on: it keeps it, and has what the image sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.environment import Environment
from kernels.images import pruning
from kernels.oci import environments
from tests.integration.kernels.oci.conftest import Sandboxes, Test


@pytest.mark.parametrize("runtime_name", ["runc"])
def test_a_sandbox_keeps_its_image_when_there_is_a_newer_one(
    in_sandboxes: Callable[[Test], None], environment: Environment, tmp_path: Path
) -> None:
    directory = tmp_path / "environments"
    builds = []
    for digest in ("sha256:a", "sha256:b"):
        build = environments.locate(directory, "own", digest)
        build.mkdir(parents=True)
        (build / "root").symlink_to(environment.root)
        environments.declare(
            build,
            name="own",
            digest=digest,
            description="",
            python=environment.python,
            variables={"PATH": "/opt/own/bin:/usr/bin:/bin", "GREETING": 'it\'s "ours"', "HOME": "/nowhere"},
        )
        builds.append(build)

    async def test(sandboxes: Sandboxes) -> None:
        run = sandboxes.runtime.settings.run_directory
        environments.point(directory / "own" / "current", builds[0].name)
        first = environments.find(directory, "own", "sha256:a")
        info = await sandboxes.create(dataclasses.replace(first, root=environment.root))
        environments.point(directory / "own" / "current", builds[1].name)
        assert pruning.find_digests_in_use(run) == {"sha256:a"}
        assert pruning.remove_unused(directory, run, print) == 0
        shown = await sandboxes.run(info, 'echo "$GREETING $PATH $HOME"')
        assert shown.stdout == 'it\'s "ours" /opt/own/bin:/usr/bin:/bin:/home/user/.local/bin /home/user\n'
        await sandboxes.runtime.destroy(info.sandbox_id)
        lines: list[str] = []
        pruning.remove_unused(directory, run, lines.append)
        assert [line.partition(":")[0] for line in lines] == [f"removed {builds[0]}"]
        assert builds[1].exists()
        assert Path(environment.root).exists()

    in_sandboxes(test)
