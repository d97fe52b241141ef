"""Routes about the files of the workspace. Contents are streamed both ways, in constant memory."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any, ClassVar

from tornado.iostream import StreamClosedError
from tornado.web import stream_request_body

from ..refusal import Refusal
from ..workspace.batch import Batch
from ..workspace.files import MAX_DEPTH, Upload, Version, Workspace, format_version, version_of
from ..workspace.gathering import gather
from .handler import Handler

CHUNK_BYTES = 512 * 1024
GATHERED_BYTES = 1024 * 1024
"""Of an upload, what is handed to a thread at once: each time is two turns of the processor, which are long to come by
on a busy host."""
MAX_UPLOAD_BYTES = 16 * 1024**3
"""Beyond any workspace; the storage limit is what ends an upload."""
MAX_UPLOADS = 16


class TreeHandler(Handler):
    """With `everywhere=true` paths are relative to the sandbox's root, else to the workspace."""

    @property
    def tree(self) -> Workspace:
        return self.control.every_file if self.flag_argument("everywhere") else self.control.files


class FilesHandler(TreeHandler):
    """GET /v1/files?path=&recursive=&depth=&limit=&private=: list a directory; `private=false` enters none that
    programs keep for themselves. With `after`, empty at first, all of it in pages: `more` says whether there is one
    that begins after the last path of this one. DELETE /v1/files?path=&recursive=: remove.
    """

    async def get(self) -> None:
        if "after" in self.request.query_arguments:
            page = partial(self.tree.list_page, self.path_argument(), limit=self.number_argument("limit", 1000))
            entries, more = await self.control.as_user(partial(page, after=self.path_argument("after")))
            return self.answer({"files": entries, "more": more})
        look = partial(
            self.tree.list,
            self.path_argument(),
            recursive=self.flag_argument("recursive"),
            limit=self.number_argument("limit", 1000),
            depth=self.number_argument("depth", MAX_DEPTH),
            private=self.get_query_argument("private", "true") == "true",
        )
        return self.answer({"files": await self.control.as_user(look)})

    async def delete(self) -> None:
        recursive = self.flag_argument("recursive")
        await self.control.as_user(partial(self.tree.remove, self.path_argument(), recursive=recursive))
        self.answer({})


class RemovalHandler(Handler):
    """POST /v1/files/remove {paths}: remove many files and empty directories."""

    async def post(self) -> None:
        paths = self.field("paths", list)
        if not all(isinstance(path, str) for path in paths):
            raise Refusal(400, "invalid_request", "paths is a list of strings")
        self.answer(await self.control.as_user(self.control.files.remove_all, paths))


class GatheringHandler(Handler):
    """POST /v1/files/contents {paths}: what is in many small files, by paths from the sandbox's root."""

    async def post(self) -> None:
        paths = self.field("paths", list)
        if not all(isinstance(path, str) for path in paths):
            raise Refusal(400, "invalid_request", "paths is a list of strings")
        self.set_header("Content-Type", "application/octet-stream")
        self.finish(await self.control.as_user(gather, self.control.every_file, paths))


class PlacesHandler(Handler):
    """POST /v1/files/directory {path}: make a directory, parents included. POST /v1/files/move {path, to}: give what is
    there another name. Both relative to the sandbox's root."""

    async def post(self, action: str) -> None:
        tree, path = self.control.every_file, self.field("path", str)
        if action == "move":
            self.answer(await self.control.as_user(tree.move, path, self.field("to", str)))
        else:
            self.answer(await self.control.as_user(tree.make_directory, path))


class StatHandler(TreeHandler):
    """GET /v1/files/stat?path=: one entry."""

    async def get(self) -> None:
        self.answer(await self.control.as_user(self.tree.stat, self.path_argument()))


@stream_request_body
class ReceivingHandler(TreeHandler):
    """PUT with a body of any size, written in threads as it comes: what `begin` returns takes it.

    A refused upload is read to its end before it is answered, so that the other side hears the answer.
    """

    under_way: ClassVar[set[ReceivingHandler]] = set()
    upload: Upload | Batch | None = None
    failure: Exception | None = None
    gathered: bytearray

    def begin(self) -> Upload | Batch:
        """Called in a thread, as the user."""
        raise NotImplementedError

    async def prepare(self) -> None:
        if self.request.method != "PUT":
            return
        self.gathered = bytearray()
        connection: Any = self.request.connection
        connection.set_max_body_size(MAX_UPLOAD_BYTES)
        if len(self.under_way) >= MAX_UPLOADS:
            self.failure = Refusal(429, "too_many_uploads", f"{MAX_UPLOADS} uploads are under way already")
            return
        self.under_way.add(self)
        try:
            self.upload = await self.control.as_user(self.begin)
        except (OSError, Refusal) as failure:
            self.failure = failure

    async def data_received(self, chunk: bytes) -> None:
        if self.upload is None or self.failure is not None:
            return
        self.gathered += chunk
        if len(self.gathered) >= GATHERED_BYTES:
            await self._write(self.upload)

    async def _write(self, upload: Upload | Batch) -> None:
        gathered, self.gathered = self.gathered, bytearray()
        try:
            await self.control.as_user(upload.write, gathered)
        except (OSError, Refusal) as failure:
            self.failure = failure

    async def put(self) -> None:
        upload, self.upload = self.upload, None
        try:
            if upload is not None and self.failure is None:
                await self._write(upload)
            if self.failure is not None or upload is None:
                raise self.failure or Refusal(400, "invalid_request", "there is no body")
            self.answer(await self.control.as_user(upload.commit))
        finally:
            if upload is not None:
                await self.control.as_user(upload.abort)

    def on_connection_close(self) -> None:
        """Nothing comes of an upload that breaks off. While data comes in, tornado calls this between two chunks."""
        self.under_way.discard(self)
        if self.upload is not None:
            self.control.discard(self.upload)
            self.upload = None

    def on_finish(self) -> None:
        self.under_way.discard(self)


class BatchHandler(ReceivingHandler):
    """PUT /v1/files/batch?everywhere=: write many files; each in one piece or not at all."""

    def begin(self) -> Batch:
        return Batch(self.tree.upload)


class ContentHandler(ReceivingHandler):
    """GET /v1/files/content?path=&max_bytes=&start=&end=&version=: a file's bytes, from `start` up to `end`. PUT: write
    it, in one piece or not at all.

    The bytes are of one version of the file, which the header `Sandcell-Entry` describes; with `version` they are of
    that one. When it changes meanwhile the last of them are not sent, and the answer has fewer than it said.
    """

    def begin(self) -> Upload:
        return self.tree.upload(self.path_argument())

    async def get(self) -> None:
        descriptor, entry, version = await self.control.as_user(self.tree.open, self.path_argument())
        try:
            if entry["size"] > self.number_argument("max_bytes", entry["size"]):
                raise Refusal(413, "too_large", f"the file has {entry['size']} bytes")
            start, end = self.number_argument("start", 0), self.number_argument("end", entry["size"])
            expected = self.get_query_argument("version", "")
            if expected and expected != format_version(version):
                raise Refusal(409, "file_changed", "the file is of another version")
            if not start <= end <= entry["size"]:
                raise Refusal(400, "invalid_request", f"the file has {entry['size']} bytes")
            os.lseek(descriptor, start, os.SEEK_SET)
            self.set_header("Sandcell-Entry", json.dumps(entry))
            await self._send(descriptor, end - start, version)
        finally:
            os.close(descriptor)

    async def _send(self, descriptor: int, size: int, version: Version) -> None:
        self.set_header("Content-Type", "application/octet-stream")
        try:
            while size:
                chunk = await self.control.as_user(os.read, descriptor, min(CHUNK_BYTES, size))
                size -= len(chunk)
                if not chunk or (not size and version_of(os.fstat(descriptor)) != version):
                    break
                self.write(chunk)
                await self.flush()
        except (OSError, StreamClosedError):
            return self.break_off()
        self.finish()
        return None
