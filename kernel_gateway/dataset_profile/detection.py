"""What a file is, by its first and last bytes and then by its name; and what it is not, said in a sentence."""

from __future__ import annotations

import codecs
from pathlib import Path

from .job import Job, Refused

SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonlines", ".json"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq", ".parq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc", ".arrows"), "arrow"),
}
WORDS = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet", "arrow": "Arrow"}
OTHERS = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "ZIP (as Excel's .xlsx)"),
    (b"\xd0\xcf\x11\xe0", "an old Excel file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"%PDF-", "PDF"),
    (b"\x89PNG", "a PNG image"),
    (b"ORC", "ORC"),
    (b"Obj\x01", "Avro"),
)
STREAM = b"\xff\xff\xff\xff"
"""How an Arrow stream begins."""
BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
HEAD_BYTES = 65_536


def settle(job: Job, name: str) -> bytes:
    """Fill in the job's format and encoding where they are empty, and return how the file begins; raises Refused."""
    with Path(job.path).open("rb") as source:
        head = source.read(HEAD_BYTES)
        source.seek(max(0, job.part_bytes - 8))
        tail = source.read(8)
    if not head:
        raise Refused("empty", "the file is empty (0 bytes): write data into it first")
    found = _detect_by_content(head)
    job.format = job.format or found or SUFFIXES.get(Path(name).suffix.lower(), "")
    if not job.format:
        raise Refused("unknown_format", "what the file is shows neither in its name nor in its content: say the format")
    _require(job, found, head, tail)
    if job.format in ("csv", "jsonl"):
        _require_text(job, head)
    return head


def _detect_by_content(head: bytes) -> str:
    if head.startswith((b"PAR1", b"PARE")):
        return "parquet"
    return "arrow" if head.startswith((b"ARROW1", STREAM)) else ""


def _require(job: Job, found: str, head: bytes, tail: bytes) -> None:
    said = WORDS[job.format]
    if found and found != job.format:
        raise Refused("wrong_format", f"the file is {WORDS[found]}, not {said}: register it with format={found}")
    other = next((word for magic, word in OTHERS if head.startswith(magic)), "")
    if other:
        raise Refused("wrong_format", f"the file is {other}, not {said}: unpack or convert it, and register what comes")
    if job.partial and job.format in ("parquet", "arrow"):
        raise Refused(
            "too_large", f"{said} files are described up to {job.part_bytes:,} bytes (dataset_bytes): split the file"
        )
    if job.format == "parquet":
        if head.startswith(b"PARE") or tail.endswith(b"PARE"):
            raise Refused("encrypted", "the Parquet file is encrypted: write it without encryption")
        if found and not tail.endswith(b"PAR1"):
            raise Refused("truncated", "the Parquet file has no end: it was cut off; write or upload it again")
    if job.format == "arrow" and head.startswith(b"FEA1"):
        raise Refused("wrong_format", "the file is Feather version 1: write it with version 2, or as Parquet")
    if job.format in ("parquet", "arrow") and not found:
        raise Refused("wrong_format", f"the file is not {said}: say what it is with format")


def _require_text(job: Job, head: bytes) -> None:
    bom = next((encoding for mark, encoding in BOMS if head.startswith(mark)), "")
    if not job.encoding:
        job.encoding = bom or "utf-8"
    if b"\0" in head and not job.encoding.startswith("utf-16"):
        raise Refused(
            "encoding", "the file holds zero bytes: it is no text, or UTF-16 without a mark; then say encoding=utf-16"
        )
