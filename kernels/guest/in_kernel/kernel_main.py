"""The process that runs user code: ipykernel, with output that is bounded and survives what code does to it.

Started inside the sandbox by the environment's own Python as `kernel_main.py -f CONNECTION_FILE`. Needs the standard
library and ipykernel 6 or newer, and of Sandcell's only the modules in this directory, which it loads itself (`load`).
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc

gc.disable()  # until the kernel is there: a sixth of its start would be collections among modules that all stay

import importlib.util
import os
import sys
from typing import Any, cast

HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL_PACKAGES = "/opt/sandcell/kernel"
"""What was put beside an image whose Python has no ipykernel: found after all packages of the image's own."""

sys.path[:] = [path for path in sys.path if path != HERE]  # our modules are not for user code to import
if os.path.isdir(KERNEL_PACKAGES):
    sys.path.append(KERNEL_PACKAGES)


def load(name: str) -> Any:
    """A module from this directory, which is on no import path, as a value that user code finds nowhere."""
    spec: Any = importlib.util.spec_from_file_location(f"sandcell_{name}", os.path.join(HERE, f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


end_deferring = load("deferred_modules").defer()
load("deferred_client").defer()

import asyncio
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial

import zmq
from ipykernel import kernelapp, zmqshell
from ipykernel.displayhook import ZMQShellDisplayHook
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import StdinNotImplementedError
from traitlets import Type, default
from traitlets.config import Config

NO_INPUT = (
    "input is not available: this code runs without a person at a keyboard. Put the value into the code, or read it"
    " from a file in the workspace"
)
LOCKS_HAVE_LOOPS = sys.version_info < (3, 10)
CONTROL_SECONDS = 60.0
"""The control thread, which runs by then, does what it is asked; the start goes on without it in any case."""
DELIMITER = b"<IDS|MSG>"
VARIABLES_REQUEST = b'"sandcell_variables_request"'
CONTEXT_REQUEST = b'"sandcell_context_request"'
DELETED_REQUEST = b'"sandcell_deleted_request"'
IPYTHON = "IPYTHONDIR"
KEPT_REQUEST = "sandcell_kept_request"
ROWS_REQUEST = "sandcell_rows_request"
STOP_REQUEST = b'"sandcell_stop_request"'
RESTORE_SECONDS = 60.0
STOP_SECONDS = 0.5
"""How long a value's own code may go on once keeping it is to end."""
GUARD_SIGNAL = signal.SIGURG
"""The guest's word that memory runs out: not SIGINT, whose handler code and asyncio replace, and one whose default
harms nobody."""
GUARD_FILE = "guard.json"
KERNEL_STANDS_ON = frozenset(
    (
        *("__main__", "ipykernel", "IPython", "jupyter_client", "jupyter_core", "tornado", "traitlets", "zmq", "comm"),
        *("decorator", "debugpy", "_pydevd_bundle", "pydevd", "matplotlib_inline", "nest_asyncio", "psutil"),
    )
)
"""Packages besides Python's own whose code the kernel's own tasks run."""

output = load("kernel_output")
guard = load("memory_guard")


class Forgetful(dict[int, list[Any]]):
    """A place for outputs that keeps none: IPython would hold every printed byte and every figure for good."""

    def __missing__(self, _number: int) -> list[Any]:
        return []


class Results(ZMQShellDisplayHook):
    """`Out`, which lets go of the oldest results after a thousand: without a warning on stderr."""

    def cull_cache(self) -> None:
        """Called when there are too many."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            super().cull_cache()


class Shell(ZMQInteractiveShell):
    """IPython's shell, whose memory does not grow with what code prints."""

    displayhook_class = Type(Results)
    display_pub_class = Type(output.Displays)

    def init_history(self) -> None:
        """Called by the constructor."""
        super().init_history()
        cast("Any", self).history_manager.outputs = Forgetful()

    async def run_code(self, *arguments: Any, **options: Any) -> Any:
        """Called for each statement of a cell."""
        error = cast("Any", self).kernel.begin_code()
        if error is not None:
            raise error
        return await super().run_code(*arguments, **options)

    def _get_exc_info(self, *arguments: Any) -> Any:
        """Called for each traceback that is shown: what raises an interrupt is no part of the user's code."""
        found = super()._get_exc_info(*arguments)
        if isinstance(found[1], (guard.MemoryGuard, KeyboardInterrupt, asyncio.CancelledError)):
            for ours in (Kernel.guard_memory, Kernel.interrupt_awaiting, Shell.run_code):
                guard.cut_last_frame(found[2], ours.__code__)
        return found

    def _tee(self, channel: str) -> Any:
        """IPython 9 copies what is written into its history; called around each cell."""
        return nullcontext()


class Kernel(IPythonKernel):
    """IPython's kernel; each execution starts with streams that work, and asking for input gets a sentence.

    The reply to an execution says in its metadata, under `sandcell`, what the execution used.
    """

    shell_class = Type(Shell)
    _stopped = _awaited = _keeping = _ended = ""
    """Which keeping of variables is to end, by its id: code is about to come. Which code waits for, which is under way,
    and which our signal is to end in a value's own code."""
    _interrupted_early = _code_began = False
    _interrupted_at = 0.0
    """When an interrupt ended the keeping of variables, of Unix time; 0 once code has begun after it."""

    def __init__(self, **options: Any) -> None:
        self._meter = load("cell_usage").Meter()
        self._used: dict[str, Any] | None = None
        self._reporter: Any = None
        self._contexts: Any = None
        self._kept: Any = None
        self._hurried = threading.Event()
        """Set once another of these ids has come, for the thread that keeps variables."""
        self._free_memory: Any = None
        super().__init__(**options)
        for comm in ("comm_open", "comm_msg", "comm_close"):
            self.shell_handlers[comm] = self._interruptible(self.shell_handlers[comm])
        self.shell_handlers[KEPT_REQUEST] = self._interruptible(self._handle_kept)
        self.shell_handlers[ROWS_REQUEST] = self._interruptible(self._handle_rows)
        self._process = os.getpid()
        self._guard_file = os.path.join(find_own_directory(), GUARD_FILE)
        signal.signal(GUARD_SIGNAL, self.guard_memory)

    def start(self) -> None:
        """Called once. The lock that control requests take is there before they are taken: they may wait already.

        ipykernel 6 makes it afterwards, and loses a request that comes before. Python 3.9's locks are of the thread
        that makes them.
        """
        made = threading.Event()

        def make() -> None:
            self._control_lock = asyncio.Lock()
            made.set()

        if LOCKS_HAVE_LOOPS:
            cast("Any", self).control_thread.io_loop.add_callback(make)
            made.wait(CONTROL_SECONDS)
        else:
            make()
        super().start()
        self._free_memory = load("free_memory").FreeMemory(self.io_loop)

    def _restore_streams(self) -> None:
        for name, stream in streams.items():
            stream.restore()
            setattr(sys, name, stream)

    def pre_handler_hook(self) -> None:
        """Called by ipykernel before each request: an interrupt is kept until there is code that it can end.

        Raised before that, it would end ipykernel's own handling of the request, and the request would get no reply.
        """
        # Not the hook of ipykernel, which has the request be ended for a moment.
        self._interrupted_early = False
        self.saved_sigint_handler = signal.signal(signal.SIGINT, self._keep_interrupt)

    def _interruptible(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """A handler of messages that may call code, as a widget's does: an interrupt ends that."""

        def handle(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return handler(*arguments, **options)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                return handler(*arguments, **options)
            finally:
                signal.signal(signal.SIGINT, self._keep_interrupt)

        return handle

    def _keep_interrupt(self, *_signal: object) -> None:
        self._interrupted_early = True

    def _raise_and_keep(self, *_signal: object) -> None:
        """Handle an interrupt while IPython prepares a cell: callbacks that it calls may let it pass, or hang."""
        self._interrupted_early = True
        raise KeyboardInterrupt

    def begin_code(self) -> BaseException | None:
        """What ends a cell, called before each of its statements: an interrupt that IPython let pass before the first.

        From here on one ends the code itself.
        """
        if threading.current_thread() is threading.main_thread():
            self._code_began = True
            if signal.getsignal(signal.SIGINT) == self._raise_and_keep:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._interrupted_early:
                self._interrupted_early = False
                return guard.take(self._guard_file) or KeyboardInterrupt()
        return None

    @contextmanager
    def _cancel_on_sigint(self, future: Any) -> Iterator[None]:
        """Called by ipykernel around a cell that awaits: a task of the loop that takes requests, as its others are.

        ipykernel's own handler asks the loop to cancel the cell, which code that computes does not let it do.
        """
        others = asyncio.all_tasks() - {future}
        handler = partial(self.interrupt_awaiting, future, asyncio.current_task(), others)
        before = signal.signal(signal.SIGINT, handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def interrupt_awaiting(self, cell: Any, request: Any, others: set[Any], _signal: int, frame: Any) -> None:
        """Handle an interrupt of a cell that awaits: end the code that computes, else cancel the cell where it waits.

        `request` is the task that has begun the cell, `others` were there before it. KeyboardInterrupt is for the cell
        itself, where IPython catches it: in another task it would end the loop, and the kernel with it.
        """
        if not self._code_began:
            self._interrupted_early = True
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        computes = self._is_in_code(frame)
        if computes and (task is cell or task is request):
            raise KeyboardInterrupt
        cell.get_loop().call_soon_threadsafe(cell.cancel)
        if task is cell or task is request:
            return
        if computes or is_in_library(frame) or (task is not None and task not in others):
            raise asyncio.CancelledError

    def _is_in_code(self, frame: Any) -> bool:
        """Whether code of cells runs in this frame, or has called what does."""
        shell = cast("Any", self.shell)
        own = (shell.user_ns, shell.user_global_ns)
        while frame is not None and not any(frame.f_globals is each for each in own):
            frame = frame.f_back
        return frame is not None

    def guard_memory(self, _signal: object, frame: Any) -> None:
        """Handle the guest's word that memory runs out: a cell's code gets an error, whatever else runs is interrupted.

        A child that was forked has this handler too, and gets an interrupt of its own.
        """
        if os.getpid() != self._process:
            return
        ended, self._ended = self._ended, ""
        if ended and not os.path.exists(self._guard_file):
            if ended == self._keeping:
                self._kept.end_value()
            return
        if not self._is_in_code(frame):  # between steps of a cell that awaits, or beside its code
            signal.raise_signal(signal.SIGINT)
            return
        error = guard.take(self._guard_file)
        if error is not None:
            raise error

    async def process_control(self, msg: Any) -> None:
        """Called by ipykernel in the control thread, whatever code runs: the service's requests are answered silently.

        Nothing is published, or those who follow the kernel would take it for idle; what code has put in the place of
        its streams is not flushed.
        """
        header = next((index + 2 for index, frame in enumerate(msg) if frame.bytes == DELIMITER), len(msg))
        asked = next((frame.bytes for frame in msg[header : header + 1]), b"")
        if not any(each in asked for each in (VARIABLES_REQUEST, CONTEXT_REQUEST, DELETED_REQUEST, STOP_REQUEST)):
            await super().process_control(msg)
            return
        session = cast("Any", self.session)
        with suppress(Exception):  # not signed, or the stream is closed
            identities, parts = session.feed_identities(msg, copy=False)
            request = session.deserialize(parts, content=True, copy=False)
            if VARIABLES_REQUEST in asked:
                reply, content = "sandcell_variables_reply", self._variables()
            elif DELETED_REQUEST in asked:
                reply, content = "sandcell_deleted_reply", {"status": "ok", "path": load("deleted_files").find()}
            elif STOP_REQUEST in asked and request["content"].get("awaited"):
                self._awaited = str(request["content"]["id"])
                self._hurried.set()
                return
            elif STOP_REQUEST in asked:  # nobody waits for an answer
                self._stopped = str(request["content"]["id"])
                self._hurried.set()
                asyncio.get_running_loop().call_later(STOP_SECONDS, self._end_value, self._stopped)
                return
            else:
                reply, content = "sandcell_context_reply", self._enter_context(request["content"])
            session.send(self.control_stream, reply, content, request, ident=identities)

    def _end_value(self, own: str) -> None:
        """In the control thread: a value's own code goes on, though what it is written for is to end."""
        if self._keeping == own:
            self._ended = own
            signal.pthread_kill(cast("int", threading.main_thread().ident), GUARD_SIGNAL)
            asyncio.get_running_loop().call_later(STOP_SECONDS, self._end_value, own)

    def _keep(self, asked: dict[str, Any], names: dict[str, Any], hidden: dict[str, Any]) -> dict[str, Any]:
        """Write variables down; one with an id is of the service's own accord, with what bounds it."""
        own = asked.get("id", "")
        ended_by = own or asked.get("end_id", "")
        if own and self._kept is None and holds_nothing(names, hidden):
            return {"status": "ok", "variables": []}
        kept = self._load_kept()
        kept.is_unwanted = lambda: bool(ended_by) and self._stopped == ended_by
        kept.is_awaited = lambda: bool(own) and self._awaited == own
        self._hurried.clear()  # what was said before is seen by these two
        kept.pause = lambda seconds: not own or kept.is_awaited() or kept.is_unwanted() or self._hurried.wait(seconds)
        limits = asked["bytes"], asked["seconds"], asked.get("stamp", {})
        show, self._keeping = warnings.showwarning, ended_by
        if own:
            warnings.showwarning = lambda *_warning, **_more: None  # nobody has asked for what it would be about
        try:
            memory = {"memory_bytes": asked.get("memory"), "held_bytes": asked.get("held")}
            found = kept.keep(names, hidden, *limits, **memory, share=bool(own), counted=bool(own))
            return cast("dict[str, Any]", found)
        finally:
            warnings.showwarning, self._keeping = show, ""

    def _open_names(self) -> AbstractContextManager[tuple[dict[str, Any], dict[str, Any]]]:
        """The default context's names, wherever code ran last, and those hidden: other contexts end with the kernel."""
        shell = cast("Any", self.shell)
        if self._contexts is None:
            return nullcontext((shell.user_ns, shell.user_ns_hidden))
        return cast("AbstractContextManager[tuple[dict[str, Any], dict[str, Any]]]", self._contexts.open_default())

    def _load_kept(self) -> Any:
        self._kept = self._kept or load("kept_variables").KeptVariables(load("kept_values"))
        return self._kept

    def _publish_status(self, status: str, channel: str, parent: Any = None) -> None:
        """Called by ipykernel around each request: what the service keeps of its own accord is nobody's busy kernel.

        Two messages to all who follow the kernel take about as long as to look at a hundred variables.
        """
        with suppress(Exception):
            asked = parent or self.get_parent(channel)
            if asked["header"]["msg_type"] == KEPT_REQUEST and asked["content"].get("id"):
                return
        super()._publish_status(status, channel, parent)

    def _handle_kept(self, stream: Any, identity: Any, parent: Any) -> None:
        """Between cells, in the thread that runs code: variables for the next kernel, or those of the last one."""
        asked = parent["content"]
        try:
            if asked["do"] == "restore":
                whose = asked.get("expected"), asked.get("generation")
                seconds, forget = asked.get("seconds", RESTORE_SECONDS), asked.get("forget", False)
                with self._open_names() as (names, _hidden):
                    content = self._load_kept().restore(names, seconds, *whose, forget=forget)
            elif asked["do"] == "prepare":
                content = self._load_kept().prepare(asked["seconds"])
            else:
                with self._open_names() as (names, hidden):
                    content = self._keep(asked, names, hidden)
        except BaseException as error:  # of code of the user's, whose `SystemExit` is not the kernel's end
            if isinstance(error, KeyboardInterrupt):
                self._interrupted_at = time.time()
            content = {"status": "error", "evalue": f"{type(error).__name__}: {error}"[:500]}
        cast("Any", self.session).send(stream, "sandcell_kept_reply", content, parent, ident=identity)

    def _handle_rows(self, stream: Any, identity: Any, parent: Any) -> None:
        """Between cells, in the thread that runs code: rows of a table that code has, or a value as a whole."""
        try:
            names, asked = cast("Any", self.shell).user_ns, parent["content"]
            if asked.get("show", "rows") == "rows":
                content = load("frames").show(names, asked, load)
            else:
                content = load("whole_values").show(names, asked)
        except BaseException as error:  # of code of the user's, whose `SystemExit` is not the kernel's end
            content = {"status": "error", "evalue": f"{type(error).__name__}: {error}"[:500]}
        cast("Any", self.session).send(stream, "sandcell_rows_reply", content, parent, ident=identity)

    def _enter_context(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The service says where the next code is to run; no code runs now."""
        try:
            if self._contexts is None:
                self._contexts = load("contexts").Contexts(self.shell)
                load("formatters").add(self.shell)
            return cast("dict[str, Any]", self._contexts.handle(asked))
        except Exception as error:
            return {"status": "error", "evalue": f"{type(error).__name__}: {error}"[:500]}

    def _variables(self) -> dict[str, Any]:
        shell = cast("Any", self.shell)
        try:
            self._reporter = self._reporter or load("variables")
            content, last = self._reporter.report(shell.user_ns, shell.user_ns_hidden)
        except Exception as error:
            return {"status": "error", "evalue": type(error).__name__}
        if last:
            self.io_loop.add_callback(last.clear)  # what `__del__` does is for the thread that runs code
        return cast("dict[str, Any]", content)

    async def do_execute(self, *arguments: Any, **options: Any) -> Any:
        """Run a cell; called by ipykernel for each execute request."""
        self._restore_streams()
        output.ThreadParents.cell_runs, self._code_began = True, False
        with suppress(Exception):  # code may have replaced what it measures with
            self._meter.start()
        try:
            if threading.current_thread() is threading.main_thread():
                self._free_memory.code_begins()
                signal.signal(signal.SIGINT, self._raise_and_keep)
                if self._is_interrupted():
                    raise guard.take(self._guard_file) or KeyboardInterrupt
            return await super().do_execute(*arguments, **options)
        except (KeyboardInterrupt, guard.MemoryGuard) as error:  # before the code began, or while one was reported
            count = cast("Any", self.shell).execution_count - 1
            return {
                "status": "error",
                "ename": type(error).__name__,
                "evalue": str(error),
                "traceback": [],
                "execution_count": count,
            }
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reply is not to be lost; ipykernel restores it
                self._free_memory.code_ended()
            with suppress(Exception):
                self._used = self._meter.read()
            self._restore_streams()
            output.ThreadParents.cell_runs = False

    def _is_interrupted(self) -> bool:
        """Whether an interrupt came for code before it began, as while it waited for variables to be kept."""
        at, self._interrupted_at = self._interrupted_at, 0.0
        if not self._interrupted_early and at:
            with suppress(Exception):  # the date is the client's
                return bool(self.get_parent("shell")["header"]["date"].timestamp() <= at)
        return self._interrupted_early

    def do_complete(self, *arguments: Any) -> Any:
        """Called by ipykernel when a client completes code."""
        return self._look(super().do_complete, *arguments)

    def do_inspect(self, *arguments: Any, **options: Any) -> Any:
        """Called by ipykernel when a client asks what a name is."""
        return self._look(super().do_inspect, *arguments, **options)

    def _look(self, look: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Looking may call code, as a property or a completer of the user's: what ends it is said in the reply.

        ipykernel would send none, and the client wait.
        """
        try:
            return self._interruptible(look)(*arguments, **options)
        except (Exception, KeyboardInterrupt) as error:
            return {"status": "error", "ename": type(error).__name__, "evalue": type(error).__name__, "traceback": []}

    def finish_metadata(self, parent: Any, metadata: Any, reply_content: Any) -> Any:
        """Called by ipykernel for the reply to an execute request, and for one that is not carried out."""
        metadata = super().finish_metadata(parent, metadata, reply_content)
        used, self._used = self._used, None
        return metadata if used is None else {**metadata, "sandcell": used}

    def raw_input(self, prompt: str = "") -> str:
        """What `input` is while code runs."""
        if not self._allow_stdin:
            raise StdinNotImplementedError(NO_INPUT)
        return str(super().raw_input(prompt))

    def getpass(self, *arguments: Any, **options: Any) -> str:
        """What `getpass.getpass` is while code runs."""
        if not self._allow_stdin:
            raise StdinNotImplementedError(NO_INPUT)
        return str(super().getpass(*arguments, **options))


def is_in_library(frame: Any) -> bool:
    """Whether this step of the loop is of a package that is neither Python's nor one that the kernel stands on.

    As a task is that an earlier cell has left running, of which no frame is code of cells. Python 3.9 has no such list.
    """
    python = getattr(sys, "stdlib_module_names", None)
    while python and frame is not None and frame.f_code is not asyncio.Handle._run.__code__:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in python and package not in KERNEL_STANDS_ON and not package.startswith("sandcell_"):
            return True
        frame = frame.f_back
    return False


def holds_nothing(names: dict[Any, Any], hidden: Any) -> bool:
    """Whether no name is one that would be kept."""
    return all(type(name) is not str or name.startswith("_") or name in hidden for name in list(names))


streams: dict[str, Any] = {}


class KernelApp(IPKernelApp):
    """ipykernel's application, publishing without loss: a full queue makes the writer wait and drops nothing.

    A message without a subscriber is gone at once, so no writer waits for a reader that is not there.
    """

    blocking_class = Type(object)

    def parse_command_line(self, argv: Any = None) -> None:
        """Called by `initialize`. It has the connection file alone, and a parser of all options takes long to make."""
        self.update_config(Config({"IPKernelApp": {"connection_file": find_connection_file()}}))

    @default("blocking_class")
    def _find_blocking_class(self) -> Any:
        """The class of clients of this kernel; jupyter_client's default would be imported at each start."""
        return importlib.import_module("jupyter_client").BlockingKernelClient

    def _try_bind_socket(self, s: Any, port: int) -> int:
        if s.type in (zmq.PUB, zmq.XPUB):
            s.sndhwm = output.SEND_MESSAGES
            s.setsockopt(zmq.XPUB_NODROP, 1)
        return int(super()._try_bind_socket(s, port))

    def init_iopub(self, context: Any) -> None:
        """Called by `initialize`."""
        cast("Any", kernelapp).IOPubThread = output.Publisher
        super().init_iopub(context)

    def init_io(self) -> None:
        """Called by `initialize` when the publishing thread runs."""
        super().init_io()
        for name in ("stdout", "stderr"):
            if isinstance(stream := getattr(sys, name), output.BoundedStream):
                streams[name] = stream
        if "stdout" in streams:
            output.remember_starts(streams["stdout"])
        output.find_senders()


def make_stream(*arguments: Any, **options: Any) -> Any:
    """The application's `outstream_class`, named by where it is found."""
    return output.BoundedStream(*arguments, **options)


def keep_stored_variables(shell: Any) -> None:
    """What `%store` keeps is in the user's home, where it outlives a kernel; it is read when code asks for it."""
    with suppress(OSError):  # the disk is full
        shell.db = type(shell.db)(os.path.join(os.path.expanduser("~"), ".ipython", "profile_default", "db"))


def find_connection_file() -> str:
    """By the command line."""
    return sys.argv[sys.argv.index("-f") + 1]


def find_own_directory() -> str:
    """Where the connection file is; in memory."""
    return os.path.dirname(find_connection_file())


def choose_temporary_directory() -> None:
    """ipykernel names cells after it. Finding it takes a few bytes of room, which a full disk has not."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = "/tmp"  # noqa: S108 - where it is once there is room


def main() -> None:
    """Run the kernel until it is asked to end."""
    load("deferred_debugger").defer()
    app = KernelApp.instance(kernel_class=Kernel, outstream_class="__main__.make_stream", log_level=50)
    app.config.HistoryManager.hist_file = ":memory:"
    # IPython's own directory is a new one next to the sockets: it is there on a full disk, and what code of an earlier
    # kernel has put into the user's (files for the start, configuration) has no part in this one.
    os.environ[IPYTHON] = os.path.join(find_own_directory(), "ipython")
    app.initialize(sys.argv[1:])
    del os.environ[IPYTHON]
    keep_stored_variables(app.shell)
    choose_temporary_directory()
    cast("Any", zmqshell).system = load("shell_escapes").run
    load("kernel_paths").add(KERNEL_PACKAGES)
    end_deferring()
    gc.freeze()
    gc.enable()
    app.start()


if __name__ == "__main__":
    main()
