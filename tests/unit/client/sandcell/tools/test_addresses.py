"""Addresses of what sessions hold, and paths as models write them."""

from __future__ import annotations

import pytest

from sandcell.errors import NotFound
from sandcell.tools import addresses
from sandcell.tools.addresses import Address

ID = "3f0c8a52-6f3e-4f1e-9d1c-0123456789ab"


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        (addresses.make_notebook(ID), Address("notebook", ID)),
        (addresses.make_execution(ID, ID), Address("execution", ID, ID)),
        (addresses.make_file(ID, "a b/ü#?.txt"), Address("file", ID, "a b/ü#?.txt")),
    ],
)
def test_an_address_is_read_as_it_was_made(uri: str, found: Address) -> None:
    assert addresses.is_address(uri)
    assert addresses.parse(uri) == found


@pytest.mark.parametrize(
    "uri", ["sandcell://", f"sandcell://sessions/{ID}", f"sandcell://sessions/{ID}/x", "file:///a"]
)
def test_others_are_not_there(uri: str) -> None:
    with pytest.raises(NotFound):
        addresses.parse(uri)


@pytest.mark.parametrize(
    ("written", "path"),
    [("/workspace/a", "a"), ("./a/b", "a/b"), (".", ""), ("/workspace", ""), ("/etc/passwd", "/etc/passwd"), ("", "")],
)
def test_paths_of_the_workspace(written: str, path: str) -> None:
    assert addresses.find_workspace_path(written) == path
