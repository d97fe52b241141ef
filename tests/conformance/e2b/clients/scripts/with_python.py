"""What a program does with E2B's Python client, unmodified. Address and key come from E2B's own variables."""

import asyncio
import time
import urllib.request
from typing import Any

from e2b import CommandExitException, NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox
from steps import Steps, equal, holds

steps = Steps("e2b-code-interpreter", "e2b")
sandbox = Sandbox.create(envs={"A": "1"}, metadata={"purpose": "conformance", "of": "a b&c"}, timeout=600)


@steps("create: lifetime, metadata, list, connect")
def _() -> None:
    info = sandbox.get_info()
    equal((info.sandbox_id, info.metadata["of"]), (sandbox.sandbox_id, "a b&c"))
    before = info.end_at
    sandbox.set_timeout(1200)
    assert sandbox.get_info().end_at > before
    again = Sandbox.connect(sandbox.sandbox_id)
    equal(again.run_code("1 + 1").text, "2")
    assert sandbox.is_running()


@steps("run_code: state, output as it comes, results, errors")
def _() -> None:
    seen: list[str] = []
    sandbox.run_code("x = 20")
    done = sandbox.run_code(
        "import sys; print('out'); print('err', file=sys.stderr); x + 1", on_stdout=lambda m: seen.append(m.line)
    )
    equal((done.text, done.logs.stdout, done.logs.stderr, seen), ("21", ["out\n"], ["err\n"], ["out\n"]))
    failed = sandbox.run_code("1/0").error
    equal((failed.name, failed.value), ("ZeroDivisionError", "division by zero"))
    holds(failed.traceback, "1/0")
    rich = sandbox.run_code(
        "from IPython.display import HTML, Markdown, SVG, display\ndisplay(HTML('<b>b</b>'))\n{'a': [1, 2]}"
    )
    equal((rich.results[0].html, rich.results[0].is_main_result), ("<b>b</b>", False))
    equal((rich.results[1].json, rich.results[1].is_main_result), ({"a": [1, 2]}, True))
    plot = sandbox.run_code("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    assert [each for each in plot.results if each.png], plot
    table = sandbox.run_code("import pandas as pd; pd.DataFrame({'a': [1, 2]})").results[0]
    equal(table.data, {"a": [1, 2]})
    assert table.html


@steps("run_code: environment variables, working directory, timeout")
def _() -> None:
    show = "import os; print(os.environ.get('A'), os.environ.get('B'), os.getcwd())"
    equal(sandbox.run_code(show, envs={"B": "2"}).logs.stdout, ["1 2 /home/user\n"])
    equal(sandbox.run_code(show).logs.stdout, ["1 None /home/user\n"])
    try:
        sandbox.run_code("import time; time.sleep(120)", timeout=1)
        raise AssertionError("it ended")
    except TimeoutException:
        pass
    equal(sandbox.run_code("x").text, "20")


@steps("contexts: names of their own, directories, restart, remove")
def _() -> None:
    context = sandbox.create_code_context(cwd="/tmp")
    equal(sandbox.run_code("x", context=context).error.name, "NameError")
    equal(sandbox.run_code("x = 5; import os; os.getcwd()", context=context).text, "/tmp")
    equal(sandbox.run_code("x").text, "20")
    equal(sandbox.run_code("x", context=context).text, "5")
    if hasattr(sandbox, "list_code_contexts"):
        assert context.id in [each.id for each in sandbox.list_code_contexts()]
        sandbox.restart_code_context(context)
        equal(sandbox.run_code("x", context=context).error.name, "NameError")
        sandbox.remove_code_context(context)
        try:
            sandbox.run_code("x", context=context)
            raise AssertionError("it ran")
        except (NotFoundException, SandboxException):
            pass
    equal(sandbox.run_code("x").text, "20")


@steps("languages: JavaScript keeps state, bash")
def _() -> None:
    sandbox.run_code("const y = 3", language="js")
    done = sandbox.run_code("console.log(y, process.env.A); y + 1", language="javascript")
    equal((done.text, done.logs.stdout), ("4", ["3 1\n"]))
    equal("".join(sandbox.run_code("echo $A; pwd; false", language="bash").logs.stdout), "1\n/home/user\n")


@steps("files: write, read, list, info, rename, remove, several at once")
def _() -> None:
    files = sandbox.files
    files.write("notes.txt", "héllo")
    equal(sandbox.run_code("open('/home/user/notes.txt').read()").text, "héllo")
    equal(files.read("/home/user/notes.txt"), "héllo")
    equal(bytes(files.read("notes.txt", format="bytes")), "héllo".encode())
    assert files.exists("notes.txt")
    assert not files.exists("absent")
    assert files.make_dir("d/e")
    assert not files.make_dir("d/e")
    files.write_files([{"path": "d/1", "data": "1"}, {"path": "d/e/2", "data": b"22"}])
    equal(sorted(each.name for each in files.list("d")), ["1", "e"])
    equal(
        sorted(each.path for each in files.list("d", depth=2)), [f"/home/user/d/{each}" for each in ("1", "e", "e/2")]
    )
    info = files.get_info("d/e/2")
    equal((info.size, info.permissions, info.owner), (2, "-rw-r--r--", "user"))
    equal(files.rename("d/e/2", "moved").path, "/home/user/moved")
    files.remove("d")
    assert not files.exists("d")
    try:
        files.read("absent")
        raise AssertionError("it is there")
    except NotFoundException:
        pass


@steps("files: signed addresses for download and upload")
def _() -> None:
    sandbox.files.write("signed", "content")
    url = sandbox.download_url("signed", use_signature_expiration=120)
    with urllib.request.urlopen(url) as answer:
        equal(answer.read(), b"content")
    boundary, name = "b0undary", "uploaded"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    request = urllib.request.Request(
        sandbox.upload_url(name),
        data=f"{head}sent\r\n--{boundary}--\r\n".encode(),
        headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )
    with urllib.request.urlopen(request):
        equal(sandbox.files.read(name), "sent")


@steps("files: a directory watched")
def _() -> None:
    sandbox.files.make_dir("watched")
    watching = sandbox.files.watch_dir("watched", recursive=True)
    sandbox.files.write("watched/new", "content")
    seen: set[str] = set()
    give_up = time.monotonic() + 60
    while "new" not in seen and time.monotonic() < give_up:
        seen |= {each.name for each in watching.get_new_events()}
    assert "new" in seen, seen
    watching.stop()


@steps("commands: output, exit codes, directory, variables, timeout")
def _() -> None:
    run = sandbox.commands.run
    seen: list[str] = []
    done = run("echo $A $B; pwd; echo bad >&2", envs={"B": "2"}, cwd="/tmp", on_stdout=seen.append)
    equal((done.stdout, done.stderr, done.exit_code, "".join(seen)), ("1 2\n/tmp\n", "bad\n", 0, "1 2\n/tmp\n"))
    try:
        run("echo some; exit 7")
        raise AssertionError("it succeeded")
    except CommandExitException as error:
        equal((error.exit_code, error.stdout), (7, "some\n"))
    try:
        run("sleep 120", timeout=1)
        raise AssertionError("it ended")
    except TimeoutException:
        pass


@steps("commands: in the background, stdin, list, connect, kill")
def _() -> None:
    handle = sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
    sandbox.commands.send_stdin(handle.pid, "a line\n")
    assert handle.pid in [each.pid for each in sandbox.commands.list()]
    other = sandbox.commands.connect(handle.pid)
    assert sandbox.commands.kill(handle.pid)
    for each in (handle, other):
        try:
            each.wait()
            raise AssertionError("it was not killed")
        except CommandExitException as error:
            equal(error.exit_code, -1)
    assert not sandbox.commands.kill(handle.pid)


async def use_async() -> None:
    box = await AsyncSandbox.create(metadata={"purpose": "async"})
    try:
        seen: list[str] = []
        done = await box.run_code("print('a'); 6 * 7", on_stdout=lambda message: seen.append(message.line))
        equal((done.text, seen), ("42", ["a\n"]))
        await box.files.write("f", "async")
        equal(await box.files.read("f"), "async")
        equal((await box.commands.run("cat f")).stdout, "async")
        many = await asyncio.gather(*(box.commands.run(f"echo {number}") for number in range(12)))
        equal([each.stdout for each in many], [f"{number}\n" for number in range(12)])
        changed = asyncio.Event()
        watching = await box.files.watch_dir(".", on_event=lambda event: changed.set())
        await box.files.write("g", "watched")
        await asyncio.wait_for(changed.wait(), 60)
        await watching.stop()
        context = await box.create_code_context()
        equal((await box.run_code("1", context=context)).text, "1")
        written: list[bytes] = []
        terminal: Any = await box.pty.create(size=__import__("e2b").PtySize(rows=30, cols=100), on_data=written.append)
        await box.pty.send_stdin(terminal.pid, b"stty size; exit\n")
        await terminal.wait()
        assert b"30 100" in b"".join(written), written
    finally:
        equal(await box.kill(), True)


@steps("async client: code, files, a directory watched, commands, a terminal")
def _() -> None:
    asyncio.run(use_async())


def state_of(box: Sandbox) -> str:
    return str(box.get_info().state.value)


@steps("pause, resume by connect, variables and files")
def _() -> None:
    sandbox.run_code("kept = {'a': [1, 2]}; open('kept.txt', 'w').write('of before')")
    sandbox.pause()
    equal(state_of(sandbox), "paused")
    again = Sandbox.connect(sandbox.sandbox_id, timeout=600)
    equal((again.sandbox_id, state_of(again)), (sandbox.sandbox_id, "running"))
    equal(again.run_code("kept['a'], open('kept.txt').read()").text, "([1, 2], 'of before')")


@steps("snapshots: create, list, begin from, delete; forks")
def _() -> None:
    told = "told, open('told.txt').read()"
    sandbox.run_code("told = 'first'; open('told.txt', 'w').write(told)")
    snapshot = sandbox.create_snapshot(name="tried")
    sandbox.run_code("told = 'second'; open('told.txt', 'w').write(told)")
    assert snapshot.snapshot_id in [each.snapshot_id for each in Sandbox.list_snapshots().next_items()]
    (listed,) = Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id).next_items()
    equal((listed.snapshot_id, listed.names), (snapshot.snapshot_id, ["tried"]))
    assert snapshot.snapshot_id not in [each.sandbox_id for each in Sandbox.list().next_items()]
    begun = [Sandbox.create(each, timeout=600) for each in (snapshot.snapshot_id, "tried")]
    equal((Sandbox.delete_snapshot(snapshot.snapshot_id), Sandbox.delete_snapshot("tried")), (True, False))
    begun += sandbox.fork(count=2, timeout=600)
    equal([each.run_code(told).text for each in begun], ["('first', 'first')"] * 2 + ["('second', 'second')"] * 2)
    equal([each.kill() for each in begun], [True] * 4)
    assert sandbox.is_running()


@steps("auto-pause at the end of its time")
def _() -> None:
    box = Sandbox.create(timeout=600, lifecycle={"on_timeout": "pause"})
    try:
        box.run_code("kept = 42")
        box.set_timeout(1)
        until = time.monotonic() + 120
        while state_of(box) != "paused" and time.monotonic() < until:
            time.sleep(0.2)
        equal(state_of(box), "paused")
        equal(box.connect(timeout=600).run_code("kept").text, "42")
    finally:
        box.kill()


@steps("kill")
def _() -> None:
    equal((sandbox.kill(), sandbox.kill(), sandbox.is_running()), (True, False, False))


steps.report()
