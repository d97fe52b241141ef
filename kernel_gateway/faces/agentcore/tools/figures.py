"""Images that code made without asking for an image block: each becomes a file of the workspace, and a line of text.

AWS's tools send no image blocks, and programs that were written for them do `json.dumps` of a result, which an image's
bytes are not fit for. So a figure that `plt.show()` or the end of the code shows, and an image that is the value of the
last expression, is saved. What `display()` is called with (an `IPython.display.Image`, one of Pillow's) stays a block,
and so does everything in an environment whose `figures` are `blocks`.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import msgspec

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.agentcore.tools.file_errors import attempt
from kernel_gateway.faces.images import EXTENSIONS, find_image
from sandcell.models.workspaces import FileEntry

if TYPE_CHECKING:
    from kernel_gateway.faces.agentcore.tools.invocation import Invocation

MOST_SAVED: Final = 20
"""Images of one execution that are saved."""
MOST_SAVED_BYTES: Final = 20_000_000
"""All of them together."""
MOST_COMPARED: Final = 3
"""Files of the same size that are read for one image, the latest first."""
_FIGURE: Final = "<Figure "
"""How the text of a figure of matplotlib begins."""
_NAME: Final = re.compile(r"(figure|image)-([0-9]{1,9})\.[a-z]{3,4}")


class Image(msgspec.Struct, frozen=True):
    """An image in the outputs of an execution: of which output, its type, its bytes, its text, and what it is of."""

    output: int
    media_type: str
    content: bytes
    text: str
    stem: str


def find_unasked(outputs: Sequence[dict[str, Any]]) -> list[Image]:
    """The images of an execution that it did not ask to see as such."""
    found = []
    for number, output in enumerate(outputs):
        data, kind = output.get("data"), output.get("output_type")
        if kind not in ("display_data", "execute_result") or not isinstance(data, dict):
            continue
        text = data.get("text/plain")
        text = text if isinstance(text, str) else ""
        is_figure = text.startswith(_FIGURE)
        if (is_figure or kind == "execute_result") and (image := find_image(data)) is not None:
            found.append(Image(number, *image, text, "figure" if is_figure else "image"))
    return found


class Figures:
    """Saves images under the next names that are free, one execution of a session after another."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def save(self, call: Invocation, outputs: Sequence[dict[str, Any]]) -> dict[int, str]:
        """By the place of the output what is to be said instead of the image; that includes what is wrong with it."""
        images = find_unasked(outputs)
        if not images or await _shows_blocks(call):
            return {}
        wanted, total = [], 0
        for image in images[:MOST_SAVED]:
            total += len(image.content)
            if total <= MOST_SAVED_BYTES:
                wanted.append(image)
        lock = self._locks.setdefault(call.session_id, asyncio.Lock())
        try:
            async with lock:
                said = await _save(call, wanted)
        except GatewayError as error:
            said = {image.output: f"not saved: {error.message}" for image in wanted}
        beyond = f"not saved: of one execution at most {MOST_SAVED} images are, {MOST_SAVED_BYTES:,} bytes together"
        return {image.output: f"{image.text or 'An image'} ({said.get(image.output, beyond)})" for image in images}


async def _save(call: Invocation, images: Sequence[Image]) -> dict[int, str]:
    """Nothing is overwritten; an image that a file of such a name has already is not saved again."""
    files = call.services.files
    entries = (await files.list(call.principal, call.session_id)).items
    taken = {entry.path for entry in entries}
    numbered = [(int(match[2]), entry) for entry in entries if (match := _NAME.fullmatch(entry.path))]
    saved = [entry for _, entry in sorted(numbered, key=lambda each: -each[0]) if entry.kind == "file"]
    last = max((number for number, _ in numbered), default=0)
    names: dict[int, str] = {}
    new: list[tuple[str, bytes]] = []
    for image in images:
        name = await _find_same(call, saved, image)
        if name is None:
            extension = EXTENSIONS[image.media_type]
            last = next(each for each in itertools.count(last + 1) if f"{image.stem}-{each}.{extension}" not in taken)
            name = f"{image.stem}-{last}.{extension}"
            new.append((name, image.content))
        names[image.output] = name
    refused = await files.write_all(call.principal, call.session_id, new) if new else ()
    troubles = {new[number][0]: error.message for number, error in refused}
    return {
        output: f"not saved: {troubles[name]}" if name in troubles else f"saved as {name}"
        for output, name in names.items()
    }


async def _find_same(call: Invocation, saved: Sequence[FileEntry], image: Image) -> str | None:
    """The file that has this image: of a plot drawn again, or of an invocation that is answered again."""
    size = len(image.content)
    alike = [each.path for each in saved if each.size == size and each.path.endswith(EXTENSIONS[image.media_type])]
    for path in alike[:MOST_COMPARED]:
        if await attempt(call.services.files.read_whole(call.principal, call.session_id, path, size)) == image.content:
            return path
    return None


async def _shows_blocks(call: Invocation) -> bool:
    """Whether the session's environment wants all images as blocks."""
    live = call.services.registry.find(call.principal, call.session_id)
    if live is None:
        return False
    try:
        return (await call.services.environments.of_session(live.row.environment)).figures == "blocks"
    except GatewayError:  # it is no longer there
        return False
