"""`sandcell audit verify`: the database and the files that it looks at, the key, and what it says of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from sqlalchemy.engine import make_url

from kernel_gateway.identity.audit_key import KEY_FILE, PublicKey, read_public_key
from kernel_gateway.services.audit.verification import Report, lines_in_order, verify_database, verify_lines
from kernel_gateway.settings import Settings
from kernel_gateway.storage.database import reading


class Inspected(msgspec.Struct):
    """What was looked at, with which key, and the report."""

    what: str
    public_key: str | None
    report: Report
    compared: bool = False
    """Whether lines were compared with the database."""

    def sentences(self) -> list[str]:
        """For a person."""
        report = self.report
        verdict = "whole" if report.whole else "NOT WHOLE"
        span = f"records {report.first} to {report.last}" if report.records else "no records"
        lines = [f"{self.what}: {verdict}", *(f"  {each.text}" for each in report.problems)]
        lines.append(f"  in order: {span} ({report.records:,}), {report.digests:,} digests")
        if report.outside:
            lines.append(f"  {report.outside:,} records are outside of the chain, and nothing vouches for them")
        if self.public_key:
            lines.append(f"  signatures verified with {self.public_key}")
        else:
            lines.append("  no signature was verified: there is no key here, and --public-key gives none")
        if self.compared:
            lines.append("  each record compared with the database")
        return lines


def inspect(settings: Settings, files: Sequence[Path], public_key: str | None) -> list[Inspected]:
    """Look at the files, or else at the database; raises StartRefused, OSError, ValueError."""
    key = PublicKey.of_text(public_key) if public_key else _key_here(settings.state_path)
    if not files:
        with reading(settings.database_url) as connection:
            return [Inspected("database", _text(key), verify_database(connection, key))]
    what, lines = ", ".join(map(str, files)), lines_in_order(files)  # before the database, which then has all of them
    if not _database_here(settings.database_url):
        return [Inspected(what, _text(key), verify_lines(lines, key))]
    with reading(settings.database_url) as connection:
        return [Inspected(what, _text(key), verify_lines(lines, key, connection), compared=True)]


def _database_here(url: str) -> bool:
    parts = make_url(url)
    return parts.get_backend_name() != "sqlite" or Path(parts.database or "").exists()


def _key_here(state: Path) -> PublicKey | None:
    try:
        return read_public_key(state)
    except PermissionError:
        return None
    except ValueError:
        raise ValueError(f"the key file {state / KEY_FILE} is damaged") from None


def _text(key: PublicKey | None) -> str | None:
    return key.text if key is not None else None
