"""Adds Debian packages to an image. A script of two parts, which run in containers of that image, never on the host.

`fetch` runs in a sandbox, as its unprivileged user: apt resolves, fetches and verifies the packages as it does
everywhere. `install` runs without a network, as root of a container over the image: apt and dpkg install them there,
with their scripts and triggers. Standard library only, for the image's own Python.

What `install` writes are the packages whose script failed, one a line, and what the script said: their files are there
all the same.

    debian_packages.py fetch PLACE SOURCES PACKAGE...
    debian_packages.py install ARCHIVES
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VARIABLES = (f"PATH={PATH}", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "HOME=/root")
"""Of apt and dpkg, which want root's path."""
TOOLS = ("apt-get", "dpkg", "dpkg-deb")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
INFO = Path("/var/lib/dpkg/info")
NO_SERVICES = Path("/usr/sbin/policy-rc.d")
SHOWN = 1500
LONGEST_REASON = 300


def fetch(place: Path, sources: str, *packages: str) -> None:
    """Leave the packages in `place`/archives; end with a sentence when they cannot be had."""
    missing = [each for each in TOOLS if shutil.which(each, path=PATH) is None]
    if missing:
        sys.exit(f"the image has no apt ({missing[0]} is missing): Debian packages are for images made from Debian")
    shutil.rmtree(place, ignore_errors=True)  # of a session that built something here
    apt = configure_apt(place, fill_in(sources, Path("/etc/os-release").read_text()))
    run([*apt, "update"], "the index of Debian packages cannot be fetched")
    wanted = ["--yes", "--download-only", "--no-remove", "--no-install-recommends"]
    run([*apt, *wanted, "install", "--", *packages], "apt cannot have these packages")


def install(archives: Path) -> None:
    """Install what was fetched. A script that fails holds nothing up: its package is named, with what it said."""
    names = sorted(str(each) for each in archives.glob("*.deb"))
    if not names:
        return
    apt = configure_install()
    failed: dict[str, str] = {}
    with_services = NO_SERVICES.exists()
    if not with_services:  # nothing is to be started here
        NO_SERVICES.write_text("#!/bin/sh\nexit 101\n")
        NO_SERVICES.chmod(0o755)
    try:
        while (said := attempt([*apt, "install", "--", *names])) is not None:
            broken = [each for each in list_broken() if each not in failed]
            if not broken:
                sys.exit(f"apt cannot install these packages:\n{find_error(said)}")
            for name in broken:
                failed[name] = find_reason(said, name)
                put_aside(name)
    finally:
        for kept in INFO.glob("*.postinst.failed"):
            kept.replace(kept.with_suffix(""))
        if not with_services:
            NO_SERVICES.unlink()
    for name, reason in sorted(failed.items()):
        sys.stdout.write(f"{name}: {reason}\n")


def fill_in(sources: str, release: str) -> str:
    """The lines of a sources.list; `{codename}` is the name of the image's release."""
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', release, re.MULTILINE)
    if found is None and "{codename}" in sources:
        sys.exit("the image's /etc/os-release has no VERSION_CODENAME, so that no source of packages is known for it")
    lines = []
    for source in sources.splitlines():
        # Images of Debian that name the keyring in their own sources may have none that apt trusts by itself.
        signed = "" if source.startswith("[") or not Path(KEYRING).exists() else f"[signed-by={KEYRING}] "
        lines.append(f"deb {signed}{source}\n".replace("{codename}", found[1] if found else ""))
    return "".join(lines)


def configure_apt(place: Path, sources: str) -> list[str]:
    """apt with records, cache and sources of its own; what is installed it learns from the image."""
    for each in ("state/lists/partial", "cache/archives/partial"):
        (place / each).mkdir(parents=True)
    (place / "sources.list").write_text(sources)
    options = {
        "Dir::State": place / "state",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": place / "cache",
        "Dir::Etc::SourceList": place / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "APT::Sandbox::User": "",
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
        "Acquire::Retries": 2,
        "Acquire::http::Pipeline-Depth": 0,
        # A name is a name: apt-get takes one that it does not know for a regular expression when it has a dot.
        "APT::Cmd::Pattern-Only": "true",
        "Debug::NoLocking": "true",
        "Dpkg::Use-Pty": "false",
    }
    return ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in options.items())]


def configure_install() -> list[str]:
    """apt that installs archives it is given, keeps no records of its own beyond dpkg's, and asks nothing."""
    scratch = Path("/tmp/apt")  # noqa: S108 - the container's own, and gone with it
    for each in ("lists/partial", "cache/archives/partial", "log"):
        (scratch / each).mkdir(parents=True)
    options = {
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Dir::Log": scratch / "log",
        "APT::Sandbox::User": "",
        "APT::Get::Assume-Yes": "true",
        "APT::Get::Remove": "false",
        "APT::Install-Recommends": "false",
        "APT::Keep-Downloaded-Packages": "false",
        "Dpkg::Use-Pty": "false",
    }
    for_dpkg = ["--force-confold", "--force-unsafe-io", f"--log={scratch}/dpkg.log"]
    for_dpkg += [f"--path-exclude={pattern}" for pattern in LEFT_OUT]
    lists = [f"--option=DPkg::Options::={each}" for each in for_dpkg]
    return ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in options.items()), *lists]


def attempt(command: list[str]) -> str | None:
    """Run it; what it said when it fails, and None when it does not."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode(errors="replace") if done.returncode else None


def list_broken() -> Iterator[str]:
    """Packages whose script failed to set them up, or to act on a trigger."""
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${binary:Package}\n"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        status, _, name = line.partition(" ")
        if status == "half-configured":
            yield name


def put_aside(name: str) -> None:
    """Have dpkg take the package for set up: its script has run as far as it can."""
    for script in (INFO / f"{name}.postinst", INFO / f"{name.partition(':')[0]}.postinst"):
        if script.exists():
            script.rename(script.with_name(f"{script.name}.failed"))
            script.write_text("#!/bin/sh\n")
            script.chmod(0o755)
            return


def find_reason(said: str, name: str) -> str:
    """What the package's script said last, and how it ended."""
    begin, plain = f"dpkg: error processing package {name} (", name.partition(":")[0]
    before, _, after = said.partition(begin)
    words = [line.strip() for line in before.splitlines() if line.strip()]
    last = words[-1] if words and not words[-1].startswith((f"Setting up {plain}", "Processing triggers for ")) else ""
    ends = [line.strip() for line in after.splitlines()[1:2]]
    if not ends:  # dpkg says nothing of it
        return "its script failed"
    return " ".join("; ".join(filter(None, (*ends, last))).split())[:LONGEST_REASON]


def run(command: list[str], failure: str) -> None:
    """Run it; end with what it said when it fails."""
    said = attempt(command)
    if said is not None:
        sys.exit(f"{failure}:\n{find_error(said)}")


def find_error(said: str) -> str:
    """The first error, and what follows."""
    errors = re.search(r"^(E: |dpkg: error)", said, re.MULTILINE)
    return said[errors.start() if errors else -SHOWN :][:SHOWN].strip()


if __name__ == "__main__":
    if sys.argv[1] == "fetch":
        fetch(Path(sys.argv[2]), *sys.argv[3:])
    else:
        install(Path(sys.argv[2]))
