"""The guest's HTTP face in one table, with a route too small for a module. README.md in this package documents it."""

from __future__ import annotations

from tornado.web import Application

from ..refusal import Refusal
from .command_routes import CommandsHandler, KeptCommandHandler, TaskHandler
from .control import Control
from .file_routes import (
    BatchHandler,
    ContentHandler,
    FilesHandler,
    GatheringHandler,
    PlacesHandler,
    RemovalHandler,
    StatHandler,
)
from .handler import Handler, UnknownHandler
from .kernel_routes import (
    DeclaredHandler,
    DenoHandler,
    EventsHandler,
    MessageHandler,
    RenumberHandler,
    SignalHandler,
    StartHandler,
    StatusHandler,
)
from .program_routes import ExecutionHandler, OutputHandler, ProgramHandler, ProgramsHandler
from .usage_routes import UsageHandler
from .watch_routes import WatchHandler


class PackagesHandler(Handler):
    """PUT /v1/packages {elsewhere}: of each package, by its normalised name, which environments have it, in words."""

    def put(self) -> None:
        elsewhere = self.field("elsewhere", dict)
        if not all(isinstance(each, str) and each.isascii() and each.isprintable() for each in elsewhere.values()):
            raise Refusal(400, "invalid_request", "elsewhere says of each package, in one line, what has it")
        self.control.missing_index.elsewhere = elsewhere
        self.answer({})


class StandbyHandler(Handler):
    """POST /v1/standby {}: close all sockets of the host's, to be saved; open them again when it goes on."""

    def post(self) -> None:
        if self.control.stand_by is not None:
            self.control.stand_by()
        self.answer({})


def make_application(control: Control) -> Application:
    """The route table."""
    shared = {"control": control}
    return Application(
        [
            (r"/v1/status", StatusHandler, shared),
            (r"/v1/usage", UsageHandler, shared),
            (r"/v1/standby", StandbyHandler, shared),
            (r"/v1/events", EventsHandler, shared),
            (r"/v1/kernel/start", StartHandler, shared),
            (r"/v1/kernel/renumber", RenumberHandler, shared),
            (r"/v1/kernel/(interrupt|kill|guard)", SignalHandler, shared),
            (r"/v1/deno/(start|kill)", DenoHandler, shared),
            (r"/v1/declared/(start|interrupt|kill)", DeclaredHandler, shared),
            (r"/v1/relay/interrupt", MessageHandler, shared),
            (r"/v1/commands", CommandsHandler, shared),
            (r"/v1/commands/([0-9a-f-]{36})", KeptCommandHandler, shared),
            (r"/v1/packages", PackagesHandler, shared),
            (r"/v1/tasks/([0-9a-f-]{36})", TaskHandler, shared),
            (r"/v1/programs", ProgramsHandler, shared),
            (r"/v1/executions/([0-9a-f-]{36})", ExecutionHandler, shared),
            (r"/v1/executions/([0-9a-f-]{36})/output", OutputHandler, shared),
            (r"/v1/programs/([0-9]{1,9})(/[a-z-]+)?", ProgramHandler, shared),
            (r"/v1/files", FilesHandler, shared),
            (r"/v1/files/stat", StatHandler, shared),
            (r"/v1/files/content", ContentHandler, shared),
            (r"/v1/files/batch", BatchHandler, shared),
            (r"/v1/files/contents", GatheringHandler, shared),
            (r"/v1/files/remove", RemovalHandler, shared),
            (r"/v1/files/(directory|move)", PlacesHandler, shared),
            (r"/v1/files/watch", WatchHandler, shared),
        ],
        default_handler_class=UnknownHandler,
        default_handler_args=shared,
        log_function=lambda handler: None,
    )
