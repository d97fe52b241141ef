"""An image from a list: built by the command over another image, in a sandbox, and used by a session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.images.kernelspecs import read_kernelspecs
from kernels.images.packages import read_packages
from kernels.oci import environments
from tests import leftovers
from tests.doubles.debian_mirror import DebianMirror, debian_mirror
from tests.doubles.declared_kernels import make_packaged
from tests.doubles.package_index import PackageIndex, make_wheel, package_index
from tests.doubles.server_process import free_port
from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

BEGIN = "a package's script failed, and its work is missing: "
ROOT = 'test "$(id -u)" = 0'
BROKEN = "echo 'no licence in this house' >&2\nexit 3"


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with package_index() as index:
        yield index


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[DebianMirror]:
    with debian_mirror(tmp_path / "mirror") as mirror:
        mirror.add(
            "greeter",
            {"usr/bin/greeter": "#!/bin/sh\ncat /lib/greeter/text\n", "lib/greeter/text": "from Debian\n"},
            links={"usr/bin/greeter-link": "greeter"},
            scripts={"postinst": "update-alternatives --install /usr/bin/greet greet /usr/bin/greeter 50"},
        )
        seen = "cat /proc/self/uid_map /proc/net/dev > /etc/rooted\ncat /proc/self/limits > /etc/limits"
        rooted = f"useradd --system rooted\n{seen}\nrm /etc/issue\nldconfig"
        mirror.add("rooted", {"usr/share/rooted": ""}, links={}, scripts={"preinst": ROOT, "postinst": rooted})
        mirror.add("broken", {"usr/share/broken": ""}, links={}, scripts={"postinst": BROKEN})
        yield mirror


@pytest.mark.sample("packages")
def test_packages_are_added_to_an_image_by_a_sandbox_and_it_is_built_again_when_the_list_changes(
    index: PackageIndex,
    mirror: DebianMirror,
    environments_dir: Path,
    make_service: Callable[..., RunningService],
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    index.add("tiny-sample", sample="GREETING = 'in the image'")
    index.packages["kernel-sample"] = {
        "kernel_sample-1.0-py3-none-any.whl": make_wheel("kernel-sample", "1.0", make_packaged("kernel-sample"))
    }
    images, file = tmp_path / "environments", tmp_path / "environments.toml"
    images.mkdir()
    (images / "python").symlink_to((environments_dir / "python").resolve())
    before = snapshot(environments_dir)

    def build(packages: str, apt: str = "", sources: str = mirror.source) -> subprocess.CompletedProcess[str]:
        lists = [f"{key} = [{listed}]" for key, listed in (("packages", packages), ("apt", apt)) if listed]
        file.write_text("\n".join(['[plus]\nimage = "python"', f'index_url = "{index.url}"', *lists]))
        variables = {
            "SANDCELL_APT_SOURCES": sources,
            "SANDCELL_DATA_DIR": str(tmp_path / "data"),
            "SANDCELL_ENVIRONMENTS_DIR": str(images),
            "SANDCELL_ENVIRONMENTS_FILE": str(file),
            "SANDCELL_RUN_DIR": str(leftovers.RUN_DIR),
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SANDCELL_")}
        return subprocess.run(
            [sys.executable, "-m", "sandcell", "environments", "build", "plus"],
            env={**kept, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    refused = build('"no-such-package"')
    assert refused.returncode != 0
    assert "has no no-such-package" in refused.stderr
    assert "plus" not in environments.find_installed(images)
    conflict = build('"numpy==0.1"')
    assert "(constraint) numpy==" in conflict.stderr
    unknown = build("", '"no-such-debian", "greete."')
    assert "apt cannot have these packages: E: Unable to locate package no-such-debian" in unknown.stderr
    assert "E: Unable to locate package greete." in unknown.stderr, "no regular expression"
    away = build("", '"greeter"', f"[trusted=yes] http://127.0.0.1:{free_port()}/debian bookworm main")
    assert "the index of Debian packages cannot be fetched: E: Failed to fetch http://127.0.0.1:" in away.stderr
    built = build('"tiny-sample==1.0"', '"greeter", "rooted", "broken"')
    assert built.returncode == 0, built.stderr
    assert built.stderr.count(BEGIN) == 1, built.stderr
    (note,) = [line for line in built.stderr.splitlines() if line.startswith(BEGIN)]
    assert note.startswith(f"{BEGIN}broken: ")
    assert "exit status 3; no licence in this house" in note
    assert "added tiny-sample 1.0, broken 1.0-1, greeter 1.0-1, rooted 1.0-1\n" in built.stderr
    plus, python = environments.find_installed(images)["plus"], environments.find_installed(images)["python"]
    assert (
        Path(plus.root).with_name("packages.lock").read_text()
        == "tiny-sample==1.0\nbroken=1.0-1\ngreeter=1.0-1\nrooted=1.0-1\n"
    )
    added = set(read_packages(plus.root, plus.python)) - set(read_packages(python.root, python.python))
    assert {(each.name, each.version, each.source) for each in added} == {
        ("tiny-sample", "1.0", "pip"),
        ("broken", "1.0-1", "apt"),
        ("greeter", "1.0-1", "apt"),
        ("rooted", "1.0-1", "apt"),
    }
    assert Path(plus.root, "usr/bin/greeter").stat().st_mode & 0o7777 == 0o755
    mapped, *interfaces = Path(plus.root, "etc/rooted").read_text().splitlines()
    assert int(mapped.split()[1]) >= 65_536, "its root is nobody on the host"
    assert [line.split(":")[0].strip() for line in interfaces[2:]] == ["lo"]
    rows = Path(plus.root, "etc/limits").read_text().splitlines()
    hard = {line[:25].strip(): line.split()[-2] for line in rows}
    assert (hard["Max core file size"], hard["Max file size"]) == ("0", str(10_240 << 20))
    assert int(hard["Max open files"]) <= 65_536
    claims = [each.read_text() for each in (leftovers.RUN_DIR / "uids").glob("[0-9]*")]
    assert not [each for each in claims if each.startswith(str(tmp_path))]
    assert "rooted:" in Path(plus.root, "etc/passwd").read_text()
    assert not Path(plus.root, "etc/issue").exists()
    assert not Path(plus.root, "usr/sbin/policy-rc.d").exists()
    assert Path(plus.root, "etc/rooted").stat().st_uid == 0
    assert "licence" in Path(plus.root, "var/lib/dpkg/info/broken.postinst").read_text()
    assert Path(plus.root, "usr/bin/env").samefile(Path(python.root, "usr/bin/env"))
    assert snapshot(environments_dir) == before, "nothing of the image below is changed"

    asked = len(index.visits)
    assert build('"tiny-sample==1.0"', '"greeter", "rooted", "broken"').returncode == 0
    assert (len(index.visits), environments.find_installed(images)["plus"].digest) == (asked, plus.digest)

    service = make_service(environments_dir=images, environments_file=file)
    with Rest(service) as rest, rest.session(environment="plus") as session:
        said = session.run("import sample\nprint(sample.GREETING, sample.__cached__)")["stdout"]
        assert said.startswith("in the image /usr/local/lib/python3.11/dist-packages/__pycache__/sample.")
        greeted = "import subprocess\nsubprocess.run('greeter; greeter-link; greet', shell=True)"
        assert session.run(greeted)["stdout"] == "from Debian\n" * 3
        (listed,) = rest.get("/v1/environments/plus/packages?name=tiny-sample")["items"]
        assert listed["source"] == "pip"
        (said,) = rest.get("/v1/images/plus")["image"]["notes"]
        assert f"{BEGIN}{said}" == note
    assert build('"tiny-sample", "kernel-sample"').returncode == 0
    again = environments.find_installed(images)["plus"]
    assert again.digest != plus.digest
    assert {each.name for each in read_packages(again.root, again.python)} >= {"tiny-sample", "kernel-sample"}
    assert [each.name for each in read_kernelspecs(again.root, again.python)] == ["shout"]


def snapshot(directory: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each of the image's files."""
    root = (directory / "python/current/root").resolve()
    found = {}
    for place, _, names in os.walk(root):
        for name in names:
            at = Path(place, name).lstat()
            found[f"{place}/{name}"] = (at.st_size, at.st_mtime_ns)
    return found
