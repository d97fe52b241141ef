"""The guest's HTTP face in one table. README.md in this package documents it."""

from __future__ import annotations

from tornado.web import Application

from .command_routes import CommandsHandler, TaskHandler
from .control import Control
from .file_routes import BatchHandler, ContentHandler, FilesHandler, RemovalHandler, StatHandler
from .handler import UnknownHandler
from .kernel_routes import DenoHandler, EventsHandler, SignalHandler, StartHandler, StatusHandler
from .package_routes import PackagesHandler


def make_application(control: Control) -> Application:
    """The route table."""
    shared = {"control": control}
    return Application(
        [
            (r"/v1/status", StatusHandler, shared),
            (r"/v1/events", EventsHandler, shared),
            (r"/v1/kernel/start", StartHandler, shared),
            (r"/v1/kernel/(interrupt|kill)", SignalHandler, shared),
            (r"/v1/deno/(start|kill)", DenoHandler, shared),
            (r"/v1/commands", CommandsHandler, shared),
            (r"/v1/packages", PackagesHandler, shared),
            (r"/v1/tasks/([0-9a-f-]{36})", TaskHandler, shared),
            (r"/v1/files", FilesHandler, shared),
            (r"/v1/files/stat", StatHandler, shared),
            (r"/v1/files/content", ContentHandler, shared),
            (r"/v1/files/batch", BatchHandler, shared),
            (r"/v1/files/remove", RemovalHandler, shared),
        ],
        default_handler_class=UnknownHandler,
        default_handler_args=shared,
        log_function=lambda handler: None,
    )
