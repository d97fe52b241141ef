"""Adds Debian packages to an image. A script, which runs in a sandbox of that image as its unprivileged user.

apt resolves, fetches and verifies them as it does everywhere; dpkg unpacks and configures them in a directory of their
own, beside a copy of its records, with their scripts told so (`DPKG_ROOT`). Nothing here is root, and nothing of the
image changes: the host takes that directory as a layer. Standard library only, for the image's own Python.

What it writes are the packages, one a line, whose script insists on being root: their files are there all the same.

    debian_packages.py PLACE SOURCES PACKAGE...
"""

from __future__ import annotations

import compileall
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOOLS = ("apt-get", "dpkg", "dpkg-deb")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
IDLE = ("ldconfig", "py3clean", "py3compile")
"""Commands of packages' scripts that change the running system, whatever `DPKG_ROOT` says: here they do nothing."""
DEBCONF = "var/cache/debconf"
SHOWN = 1500


def main(place: Path, sources: str, *packages: str) -> None:
    """Leave in `place`/root what the packages add; end with a sentence when they cannot be added."""
    missing = [each for each in TOOLS if shutil.which(each, path=PATH) is None]
    if missing:
        sys.exit(f"the image has no apt ({missing[0]} is missing): Debian packages are for images made from Debian")
    shutil.rmtree(place, ignore_errors=True)  # of a session that built something here
    apt = configure_apt(place, fill_in(sources, Path("/etc/os-release").read_text()))
    run([*apt, "update"], "the index of Debian packages cannot be fetched")
    wanted = ["--yes", "--download-only", "--no-remove", "--no-install-recommends"]
    run([*apt, *wanted, "install", "--", *packages], "apt cannot have these packages")
    archives = sorted(str(each) for each in (place / "cache/archives").glob("*.deb"))
    root = copy_records(place / "root")
    if archives:
        dpkg = configure_dpkg(place, root)
        run([*dpkg, "--unpack", *archives], "the packages cannot be unpacked")
        configure(dpkg, place, root)
    shutil.rmtree(root / DEBCONF)  # the answers to these packages' questions, and not those that the image has
    if sys.prefix == "/usr":  # Debian's Python, whose packages these may be
        compileall.compile_dir(root / "usr/lib/python3/dist-packages", stripdir=str(root), quiet=2)


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
        "Debug::NoLocking": "true",
        "Dpkg::Use-Pty": "false",
    }
    return ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in options.items())]


def copy_records(root: Path) -> Path:
    """What dpkg and the packages' scripts look up, and the links that stand for directories in the image."""
    root.mkdir(parents=True)
    for parent in ("", "usr", "var"):
        for link in sorted(Path("/", parent).iterdir()):
            if link.is_symlink() and link.is_dir():
                leads = posixpath.normpath(posixpath.join("/", parent, link.readlink()))
                for each in (root / parent, Path(f"{root}{leads}")):
                    each.mkdir(parents=True, exist_ok=True)
                (root / parent / link.name).symlink_to(link.readlink())
    ignore = shutil.ignore_patterns("lock*", "Lock", "*-old")  # locks are root's to read
    for records in ("var/lib/dpkg", "etc/alternatives"):
        if Path("/", records).is_dir():
            shutil.copytree(f"/{records}", root / records, symlinks=True, ignore=ignore)
    (root / DEBCONF).mkdir(parents=True, exist_ok=True)
    (root / "etc").mkdir(exist_ok=True)
    if Path("/etc/debconf.conf").exists():
        shutil.copy2("/etc/debconf.conf", root / "etc")
    return root


def configure_dpkg(place: Path, root: Path) -> list[str]:
    """dpkg that writes below `root` alone, without being root."""
    (place / "bin").mkdir()
    for name in IDLE:
        (place / "bin" / name).write_text("#!/bin/sh\n")
        (place / "bin" / name).chmod(0o755)
    leave_out = [f"--path-exclude={pattern}" for pattern in LEFT_OUT]
    options = [f"--root={root}", "--force-not-root", "--force-script-chrootless", "--force-confold", *leave_out]
    return ["env", f"PATH={place}/bin:{PATH}", "dpkg", *options]


def configure(dpkg: list[str], place: Path, root: Path) -> None:
    """Set up what was unpacked. A script that fails holds nothing up: its package is named.

    dpkg would leave it and all that depends on it half installed, so each script is run by another that never fails.
    """
    info, kept, unfinished = root / "var/lib/dpkg/info", place / "scripts", place / "unfinished"
    kept.mkdir()
    unfinished.touch()
    for script in sorted(info.glob("*.postinst")):
        if not is_of_image(script, Path("/var/lib/dpkg/info", script.name)):
            script.rename(kept / script.name)
            script.write_text(f'#!/bin/sh\n"{kept}/{script.name}" "$@" || echo "{script.stem}" >> "{unfinished}"\n')
            script.chmod(0o755)
    try:
        run([*dpkg, "--configure", "--pending"], "the packages cannot be set up")
    finally:
        for script in kept.iterdir():
            script.replace(info / script.name)
    sys.stdout.write("\n".join(sorted(set(unfinished.read_text().split()))))


def is_of_image(script: Path, there: Path) -> bool:
    """Whether the image has this very file."""
    if not there.exists():
        return False
    one, other = script.stat(), there.stat()
    return (one.st_size, one.st_mtime) == (other.st_size, other.st_mtime)


def run(command: list[str], failure: str) -> None:
    """Run it; end with what it said when it fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        said = done.stdout.decode(errors="replace")
        errors = re.search(r"^(E: |dpkg: error)", said, re.MULTILINE)
        sys.exit(f"{failure}:\n{said[errors.start() if errors else -SHOWN :][:SHOWN].strip()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
