"""Where the client finds the service, and that a token never goes to another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandcell.errors import InvalidRequest
from sandcell.saved import DEFAULT_URL, Address, file, find_address, format_content
from sandcell.settings import ClientSettings

URL = "http://127.0.0.1:1234"


def settings(directory: Path, url: str = "", token: str = "") -> ClientSettings:
    return ClientSettings(url, token, "", directory / "config", directory / "state")


def keep(url: str, token: str, said: ClientSettings) -> Path:
    """The file as `sandcell serve` leaves it; how it writes one is tested with the service."""
    path = file(said)
    path.parent.mkdir()
    path.write_bytes(format_content(url, token))
    return path


def test_without_anything_said_it_is_the_default_address(tmp_path: Path) -> None:
    assert find_address(settings=settings(tmp_path)) == Address(DEFAULT_URL, "")


def test_what_serve_saved_is_found_again(tmp_path: Path) -> None:
    keep(URL + "/", 'a"token\\', settings(tmp_path))
    assert find_address(settings=settings(tmp_path)) == Address(URL, 'a"token\\')
    assert find_address(URL + "/", settings=settings(tmp_path)).token == 'a"token\\'


@pytest.mark.parametrize("url", ["http://elsewhere.example", "http://127.0.0.1:12345"])
def test_a_saved_token_goes_to_no_other_service(tmp_path: Path, url: str) -> None:
    keep(URL, "secret", settings(tmp_path))
    assert find_address(url, settings=settings(tmp_path)) == Address(url, "")
    assert find_address(settings=settings(tmp_path, url=url)) == Address(url, "")


def test_arguments_win_over_variables_and_those_over_the_file(tmp_path: Path) -> None:
    keep(URL, "saved", settings(tmp_path))
    said = settings(tmp_path, url=URL, token="variable")
    assert find_address(settings=said).token == "variable"
    assert find_address(URL, "argument", said).token == "argument"


def test_a_file_that_cannot_be_read_is_as_none(tmp_path: Path) -> None:
    path = keep(URL, "saved", settings(tmp_path))
    path.write_text("url = ")
    assert find_address(settings=settings(tmp_path)) == Address(DEFAULT_URL, "")


@pytest.mark.parametrize("url", ["127.0.0.1:8899", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port", "nonsense"])
def test_what_is_no_url_of_a_service_is_said_before_anything_is_sent(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidRequest, match="must be like"):
        find_address(url, settings=settings(tmp_path))
