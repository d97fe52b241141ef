"""Forms with files: as many as are promised, and no more are looked at."""

from __future__ import annotations

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.forms import MOST_FIELDS, MOST_FILES, parse_files

FORM = "multipart/form-data; boundary=x"
FIELD = b'--x\r\nContent-Disposition: form-data; name="kind"\r\n\r\nuser\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n1\r\n'
END = b"--x--\r\n"


def test_as_many_files_as_are_promised_are_read() -> None:
    assert len(parse_files(FORM, MOST_FIELDS * FIELD + MOST_FILES * FILE + END)) == MOST_FILES


@pytest.mark.parametrize(
    "body",
    [(MOST_FILES + 1) * FILE + END, (MOST_FIELDS + MOST_FILES + 1) * FIELD + FILE + END, FIELD + END, b"", FILE],
)
def test_what_is_no_such_form_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_files(FORM, body)


def test_a_form_of_very_many_parts_is_not_taken_apart() -> None:
    """Only as many parts are cut out as one form may have."""
    with pytest.raises(InvalidRequest, match="too many parts"):
        parse_files(FORM, 1_000_000 * b"--x\r\n" + END)
