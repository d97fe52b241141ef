"""What a tool answers a model with: text, images, links to more. No protocol's shape. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """Text for the model to read."""

    text: str


@dataclass(frozen=True)
class Image:
    """A picture for the model to look at."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class Link:
    """Where more is: the tool `read_file` and MCP's `resources/read` take the address."""

    uri: str
    name: str
    media_type: str = "text/plain"


Content = Text | Image | Link


@dataclass(frozen=True)
class ToolResult:
    """The contents in order. `is_error`: it did not do what it was asked to; the text says why and what to do.

    `address`: where all that came of the code is on record, for programs; empty for tools that run none.
    """

    contents: tuple[Content, ...]
    is_error: bool = False
    address: str = ""

    @property
    def text(self) -> str:
        """All text of it, for models and frameworks that take nothing else; pictures are named in it."""
        return "\n".join(map(_describe, self.readable))

    @property
    def readable(self) -> list[Text | Image]:
        """Text and pictures in order; the text has the addresses of links as well."""
        return [each for each in self.contents if not isinstance(each, Link)]

    @property
    def images(self) -> list[Image]:
        """The pictures, in order."""
        return [each for each in self.contents if isinstance(each, Image)]


def _describe(content: Text | Image) -> str:
    if isinstance(content, Text):
        return content.text
    return f"[{content.media_type}, {len(content.data):,} bytes]"


def make_text(text: str, *, is_error: bool = False) -> ToolResult:
    """A result of one text."""
    return ToolResult((Text(text),), is_error)
