"""Attempts by the means of the kernel's protocol: its key, its messages and its sockets, which user code has by nature.

User code may say what it likes of its own execution. It must not be heard in another one or another session, nor hold
the service's memory or time.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.escape.attempt import Attempt, Family
from tests.escape.checks import protocol as checks
from tests.escape.forgery import FORGED, FORGERY, IMPOSTOR
from tests.escape.position import Scene

Check = Callable[[Scene, str], None]


def forging(
    name: str, program: str, expect: str = "said: sent", check: Check = checks.attributed, seconds: float = 120
) -> Attempt:
    """An attempt of a kernel that forges messages; `said: sent` when nothing of them is shown."""
    word = f"{FORGED}-{re.sub('[^a-z]+', '-', name)}"
    program = program.replace(FORGED, word) + ("" if "print(" in program else "\nprint('sent')")
    told = expect.replace(FORGED, word)
    return Attempt(name, FORGERY + program, told, "kernel", lambda scene: check(scene, word), seconds=seconds)


def impostor(name: str, behaviour: str) -> Attempt:
    """An attempt to be taken for the next kernel."""
    indented = "".join(f"        {line}\n" for line in behaviour.splitlines())
    return Attempt(name, IMPOSTOR.format(behaviour=indented), "said: waiting", check=checks.replaced)


def flood(name: str, piece: str) -> Attempt:
    """An attempt that sends pieces as fast as it can while others are served."""
    program = (
        f"piece = ({piece}) * (65536 // len({piece}))\n"
        "def go_on():\n"
        "    give_up = time.monotonic() + 1\n"
        "    while time.monotonic() < give_up: raw('stdin', piece, 1)\n"
        "threading.Thread(target=go_on, daemon=True).start()"
    )
    return forging(name, program, check=checks.neighbour_is_answered)


def displayed(name: str, content: str, expect: str = "said: sent") -> Attempt:
    """An attempt with the content of a display."""
    return forging(name, f"forge('iopub', 'display_data', {content})", expect)


SHOWN = f"shown('{FORGED}')"
TEXT = f"{{'name': 'stdout', 'text': '{FORGED}'}}"

ATTEMPTS = (
    forging("print into an earlier execution", f"forge('iopub', 'stream', {TEXT}, parent={{'msg_id': earlier}})"),
    forging("show in an earlier execution", f"forge('iopub', 'display_data', {SHOWN}, parent={{'msg_id': earlier}})"),
    forging(
        "end an earlier execution again",
        f"forge('shell', 'execute_reply', {{'status': 'error', 'ename': '{FORGED}'}}, parent={{'msg_id': earlier}})",
    ),
    forging("print into no execution", f"forge('iopub', 'stream', {TEXT}, parent={{}})"),
    forging(
        "end one's own execution before its end",
        "print('before', flush=True)\nforge('iopub', 'status', {'execution_state': 'idle'})\n"
        "time.sleep(1.5)\nprint('and after', flush=True)",
        "said: before\nand after",
    ),
    forging(
        "reply in one's own name, twice",
        "reply = {'status': 'error', 'ename': 'Own', 'evalue': 'word', 'traceback': []}\n"
        f"forge('shell', 'execute_reply', reply)\nforge('shell', 'execute_reply', {{**reply, 'ename': '{FORGED}'}})",
        "Own: word",
    ),
    forging(
        "say that the kernel is dead",
        "for state in ('dead', 'restarting', 'starting', 'terminating', 7):\n"
        "    forge('iopub', 'status', {'execution_state': state})",
    ),
    forging("ask the service for input", "forge('stdin', 'input_request', {'prompt': '?', 'password': True})"),
    forging(
        "answer what nobody has asked on the control channel",
        "for kind in ('shutdown_reply', 'interrupt_reply', 'kernel_info_reply', 'debug_reply', 'execute_reply'):\n"
        "    forge('control', kind, {'status': 'ok', 'restart': True, 'language_info': [None] * 9})",
    ),
    forging(
        "request what only the service requests",
        "for kind in ('shutdown_request', 'execute_request', 'interrupt_request'):\n"
        f"    for channel in NUMBERS_OF: forge(channel, kind, {{'code': '{FORGED}', 'restart': True}})",
    ),
    forging("sign with another key", f"forge('iopub', 'stream', {TEXT}, key=b'another')"),
    forging("sign with no key", f"forge('iopub', 'stream', {TEXT}, key=b'')"),
    forging(
        "sign one message and send another",
        "frames = message('stream', {'name': 'stdout', 'text': 'x'})\n"
        f"frames[-1] = json.dumps({TEXT}).encode()\nraw('iopub', wire(frames))",
    ),
    forging(
        "leave parts of a message out",
        f"frames = message('stream', {TEXT})\n"
        "for number in range(len(frames)): raw('iopub', wire(frames[:number] + frames[number + 1:]))\n"
        "for number in range(1, len(frames)): raw('iopub', wire(frames[:number]))\n"
        "raw('iopub', wire([b'x'] * 9 + frames))",
        "said: " + FORGED + "sent",  # without its topic it is a message still
    ),
    forging(
        "send headers that are none",
        "for header in (b'[]', b'7', b'\"\"', b'{', b'null', b'', b'{\"msg_id\": 7}', b'[' * 99999):\n"
        f"    parts = [header, json.dumps(own).encode(), b'{{}}', json.dumps({TEXT}).encode()]\n"
        "    raw('iopub', wire([b'<IDS|MSG>', signed(parts), *parts]))\n"
        "    parts[:2] = parts[1::-1]\n"
        "    raw('iopub', wire([b'<IDS|MSG>', signed(parts), *parts]))",
    ),
    forging(
        "send a header of megabytes",
        f"forge('iopub', 'x' * 5_000_000, {SHOWN}, msg_id='y' * 5_000_000, parent={{'msg_id': 'z' * 5_000_000}})",
    ),
    forging("speak another version of the protocol", f"forge('iopub', 'stream', {TEXT}, version='99.0', parent={{}})"),
    forging(
        "end an execution with a reply that makes no sense",
        "for content in (b'[]', b'null', b'7', b'\"x\"', b'{', b'\\xff'):\n"
        "    forge('shell', 'execute_reply', content)\n",
    ),
    forging(
        "count executions from the wrong end",
        "for count in (-1, 2**70, '7', None, True, 1.5, []):\n"
        "    forge('iopub', 'execute_input', {'execution_count': count, 'code': 7})",
    ),
    displayed(
        "show what is nested too deep", "b'{\"data\": {\"application/json\": ' + b'[' * 99999 + b']' * 99999 + b'}}'"
    ),
    displayed(
        "show what is nested deeper than a notebook may be",
        "b'{\"data\": {\"application/json\": ' + b'[' * 500 + b']' * 500 + b'}}'",
    ),
    displayed(
        "show bytes that are no text",
        'b\'{"data": {"text/plain": "\\xff\\xc0\\x80\\xed\\xa0\\x80"}}\'',
        "said: \ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\nsent",
    ),
    displayed(
        "show numbers that are none",
        "b'{\"data\": {\"application/json\": [NaN, Infinity, -1e999, ' + b'9' * 400 + b']}}'",
    ),
    displayed(
        "say a thing twice in one object",
        'b\'{"data": {"text/plain": "one"}, "data": {"text/plain": "two"}}\'',
        "said: two\nsent",
    ),
    forging(
        "show what is of the wrong types",
        "for content in ({'data': []}, {'data': {'text/plain': {'a': 1}}, 'metadata': 7}, {'data': 'x'},\n"
        "                {'transient': 7}, {'transient': {'display_id': {}}}, \n"
        "                {'data': {'image/png': [1, 2]}}, {'data': {'': None}}):\n"
        "    for kind in ('display_data', 'update_display_data', 'execute_result'):\n"
        "        forge('iopub', kind, content)\n"
        "forge('iopub', 'error', {'ename': 7, 'evalue': [], 'traceback': [1, {}]})\n"
        "forge('iopub', 'clear_output', {'wait': 'x'})\n"
        "forge('iopub', 'stream', {'name': 7, 'text': ['a']})",
    ),
    forging(
        "open thousands of comms",
        "piece = wire(message('comm_open', {'comm_id': 'c', 'target_name': 't', 'data': {}}))\n"
        "raw('iopub', piece * 5_000)",
    ),
    forging(
        "update a display thousands of times",
        "one = {'data': {'text/plain': 'x'}, 'transient': {'display_id': 'd'}}\n"
        "for _ in range(20): forge('iopub', 'display_data', one)\n"
        "raw('iopub', wire(message('update_display_data', {**one, 'data': {'application/json': [{}] * 300}})) * 500)\n"
        "forge('iopub', 'clear_output', {})",
    ),
    forging(
        "clear what is shown thousands of times",
        "text, clear = message('stream', {'name': 'stdout', 'text': 'x'}), message('clear_output', {})\n"
        "raw('iopub', (wire(text) + wire(clear)) * 3_000)",
    ),
    forging(
        "print a letter at a time",
        "raw('iopub', wire(message('stream', {'name': 'stdout', 'text': 'x'})) * 5_000)\n"
        "forge('iopub', 'clear_output', {})",
    ),
    forging(
        "send messages of a thousand frames",
        "raw('iopub', wire(message('status', {'execution_state': 'busy'}, more=[b'yz'] * 1000)) * 60)",
    ),
    forging(
        "send a message of hundreds of thousands of frames",
        "raw('iopub', b'\\1\\0' * 100_000 + b'\\0\\0')",
    ),
    forging(
        "send a message larger than any may be",
        "raw('iopub', wire(message('display_data', b'x' * 120_000_000)), 60)\nforge('iopub', 'clear_output', {})",
    ),
    forging(
        "show megabytes of empty objects",
        "content = b'{\"data\": {\"application/json\": [' + b'{},' * 15_000_000 + b'{}]}}'\n"
        "raw('iopub', wire(message('display_data', content)), 60)",
        "said: [an output of 45,000,347 bytes was dropped: it holds more values than are decoded]\nsent",
    ),
    flood("ask for an answer to pings, and read none", "b'\\4\\7\\4PING\\0\\0'"),
    flood("send frames without end", "b'\\1\\0'"),
    flood("send messages as fast as one can", "wire(message('status', {}))"),
    forging(
        "announce a frame that never ends",
        "raw('iopub', b'\\3' + struct.pack('!Q', 2**62))\n"
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(20)",
        "died: deadline SIGKILL",
        checks.replaced,
        seconds=5,
    ),
    forging("leave the protocol", "raw('shell', b'GET / HTTP/1.1\\r\\n\\r\\n'); time.sleep(9)", "died: exit"),
    forging("greet again", "raw('iopub', b'\\xff' + bytes(63)); time.sleep(9)", "died: exit"),
    forging(
        "close the connections",
        "for name in NUMBERS_OF: close(name)\ntime.sleep(9)",
        "died: exit",
    ),
    impostor(
        "speak HTTP in the place of the next kernel", "connection.sendall(b'HTTP/1.1 200 OK\\\\r\\\\n\\\\r\\\\n' * 9)"
    ),
    impostor("close what connects to the next kernel", "connection.close()"),
    impostor("say nothing in the place of the next kernel", "connection.recv(99)"),
    impostor(
        "answer with pings in the place of the next kernel",
        "connection.sendall(GREETING + READY)\n"
        "while time.monotonic() < give_up: connection.sendall(b'\\\\4\\\\7\\\\4PING\\\\0\\\\0' * 7000)",
    ),
    impostor(
        "answer with frames in the place of the next kernel",
        "connection.sendall(GREETING + READY)\n"
        "while time.monotonic() < give_up: connection.sendall(b'\\\\1\\\\0' * 30000)",
    ),
    impostor("echo what is said to the next kernel", "while piece := connection.recv(999): connection.sendall(piece)"),
    Attempt(
        "put links, FIFOs and files in the place of the next kernels' sockets",
        "racer = '''\n"
        "import glob, os, time\n"
        "give_up = time.monotonic() + 1.5\n"
        'seen = set(glob.glob("/run/sandcell/kernel/*"))\n'
        "while time.monotonic() < give_up:\n"
        '    for path in set(glob.glob("/run/sandcell/kernel/g*-*")) - seen:\n'
        "        seen.add(path)\n"
        "        try:\n"
        "            os.unlink(path)\n"
        "            kind = len(seen) % 3\n"
        '            if kind == 0: os.symlink("/run/sandcell/guest/http.sock", path)\n'
        "            if kind == 1: os.mkfifo(path)\n"
        '            if kind == 2: open(path, "w").close()\n'
        "        except OSError: pass\n"
        'os.system("pkill -9 -f kernel_main")\n'
        "'''\n"
        "open('/tmp/racer.py', 'w').write(racer); print('ready')",
        "said: ready",
        check=checks.races_end,
    ),
)

FAMILY = Family(
    "protocol",
    "the connection key, forged Jupyter messages, ZMQ sockets replaced, giant and malformed messages",
    ATTEMPTS,
)
