"""Changes that hide: beside noise in the same line, in what looks like noise, in one digit among many that vary."""

from tests.replay_histories.writing import Family, different, random, same, undecidable

hidden = Family("changes_among_noise")

hidden.pair(
    "count-between-times",
    "A line with two times of the run and a count between them",
    different(
        """
        from datetime import datetime
        rows = len(open("rows.txt").read().split())
        print(f"{datetime.now():%H:%M:%S.%f} imported {rows} rows until {datetime.now():%H:%M:%S.%f}")
        """,
        "the count changed",
    ),
    files={"rows.txt": "a b c d e"},
    change=(("d e", "d"),),
    unchanged="times of the run",
)

hidden.pair(
    "duration-as-data-beside-one-measured",
    "Two durations in one line: the limit is data, the other is measured",
    different(
        """
        import time
        limit = float(open("limit.txt").read())
        began = time.perf_counter()
        sum(i * i for i in range(30_000))
        print(f"took {time.perf_counter() - began:.5f} s of {limit} s")
        """,
        "the limit changed",
    ),
    files={"limit.txt": "34.5"},
    change=(("34.5", "87.1"),),
    unchanged="a duration that the run measured",
)

hidden.pair(
    "digit-among-random-ones",
    "A row of random numbers of which the third is fixed",
    different(
        """
        import random
        fixed = float(open("fixed.txt").read())
        print(*(f"{v:.4f}" for v in (random.random(), random.random(), fixed, random.random())))
        """,
        "the third number is the same in both replays and another one in the record",
    ),
    files={"fixed.txt": "0.4711"},
    change=(("0.4711", "0.4717"),),
    unchanged="three of the numbers are drawn without a seed",
    is_random=True,
)

hidden.pair(
    "row-among-random-rows",
    "A column of random numbers with one that comes from a file",
    different(
        """
        import numpy as np
        import pandas as pd
        column = np.random.rand(6).round(3)
        column[3] = float(open("known.txt").read())
        pd.DataFrame({"value": column})
        """,
        "the fourth value changed, its neighbours vary",
    ),
    files={"known.txt": "0.125"},
    change=(("0.125", "0.725"),),
    unchanged="the neighbours are drawn without a seed",
    is_random=True,
)

hidden.pair(
    "sign-beside-an-address",
    "A change of sign in a line with an address",
    different(
        """
        delta = open("delta.txt").read().strip()
        print(object(), "delta", delta)
        """,
        "another sign",
    ),
    files={"delta.txt": "+0.35"},
    change=(("+0.35", "-0.35"),),
    unchanged="an address",
)

hidden.pair(
    "unit-beside-a-time",
    "A change of unit in a line with the time of the run",
    different(
        """
        import time
        unit = open("unit.txt").read().strip()
        print(time.strftime("%H:%M:%S"), "level 12.4", unit)
        """,
        "another unit",
    ),
    files={"unit.txt": "mg/l"},
    change=(("mg/l", "ug/l"),),
    unchanged="the time of the run",
)

hidden.pair(
    "status-beside-a-process-id",
    "An exit status beside a process id",
    different(
        """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-S", "job.py"])
        print(f"pid {child.pid} exit status {child.wait()}")
        """,
        "another exit status",
    ),
    files={"job.py": "raise SystemExit(0)\n"},
    change=(("(0)", "(3)"),),
    unchanged="a process id",
)

hidden.pair(
    "process-id-as-data-beside-a-real-one",
    "Two process ids, one of which was read",
    different(
        """
        import os
        print("pid", os.getpid(), "replaces pid", open("old.txt").read().strip())
        """,
        "the old process id is data",
    ),
    files={"old.txt": "254709"},
    change=(("254709", "254907"),),
    unchanged="a process id",
)

hidden.pair(
    "identifier-as-data-beside-a-random-one",
    "Two UUIDs, one of which was read",
    different(
        """
        import uuid
        print("copy", uuid.uuid4(), "of", open("original.txt").read().strip())
        """,
        "another original",
    ),
    files={"original.txt": "6fa459ea-ee8a-4ca4-894e-db77e160355e"},
    change=(("6fa459ea", "6fa459eb"),),
    unchanged="the first UUID is drawn at random",
    is_random=True,
)

hidden.pair(
    "date-as-data-beside-the-day-of-the-run",
    "A period from a fixed day to the day of the run",
    different(
        """
        from datetime import date
        print("period", open("from.txt").read().strip(), "to", date.today())
        """,
        "the period begins on another day",
    ),
    files={"from.txt": "2026-10-01"},
    change=(("2026-10-01", "2026-10-02"),),
    unchanged="the day of the run",
)

hidden.add(
    "recent-date-as-data",
    "A day shortly before the run, read from a file that was updated before the replay",
    undecidable(
        "from datetime import date, timedelta\nimport pathlib, os\n"
        "print('last delivery', date.fromtimestamp(os.stat('deliveries.csv').st_mtime) - timedelta(days=1))",
        "it follows the clock, or the data: the record does not say which",
    ),
    files={"deliveries.csv": "a\n"},
)

hidden.pair(
    "level-in-a-log",
    "The level of a line of a log, beside its time",
    "import logging, sys\nlogging.basicConfig(stream=sys.stdout, format='%(asctime)s %(levelname)s %(message)s')",
    different(
        "logging.getLogger().log(getattr(logging, open('level.txt').read().strip()), 'disk at 91 %')",
        "a warning became an error",
    ),
    files={"level.txt": "WARNING"},
    change=(("WARNING", "ERROR"),),
    unchanged="the time of the run",
)

hidden.pair(
    "line-missing-in-a-log",
    "One line of many with times is missing",
    different(
        """
        import time
        for step in open("steps.txt").read().split():
            print(f"{time.strftime('%H:%M:%S')} {time.perf_counter():.6f} {step}")
        """,
        "a step is missing in the replay",
    ),
    files={"steps.txt": "load check clean fit save"},
    change=(("check ", ""),),
    unchanged="times of the run and of its clock",
    is_random=True,
)

hidden.pair(
    "two-words-swapped-beside-random",
    "Two names change places beside random scores",
    different(
        """
        import random
        for name in open("names.txt").read().split():
            print(f"{name:6} {random.random():.3f}")
        """,
        "the names stand in another order",
    ),
    files={"names.txt": "Ada Bo Cy Dee"},
    change=(("Bo Cy", "Cy Bo"),),
    unchanged="the scores are drawn without a seed",
    is_random=True,
)

hidden.pair(
    "loss-beside-a-rate",
    "A training line: duration and rate are measured, the loss in the middle is data",
    different(
        """
        import random, time
        for epoch, loss in enumerate(map(float, open("losses.txt")), 1):
            began = time.perf_counter()
            time.sleep(random.uniform(0.002, 0.03))
            spent = time.perf_counter() - began
            print(f"Epoch {epoch}/3 - {spent:.2f}s - loss: {loss:.4f} - {64 / spent:.1f} samples/s")
        """,
        "the loss of the second epoch",
    ),
    files={"losses.txt": "0.9100\n0.6200\n0.4400\n"},
    change=(("0.6200", "0.6800"),),
    unchanged="durations and rates are measured",
)

hidden.pair(
    "address-class-in-a-table",
    "A table of objects: addresses vary, one class changed",
    "import pandas as pd\nfrom parts import build",
    different("pd.DataFrame({'part': [repr(part) for part in build()]})['part'].str[:14].tolist()", "another class"),
    different("print(build())", "another class beside addresses"),
    files={"parts.py": "class Bolt: ...\n\n\nclass Nutt: ...\n\n\ndef build():\n    return [Bolt(), Nutt(), Bolt()]\n"},
    change=(("[Bolt(), Nutt(), Bolt()]", "[Bolt(), Nutt(), Nutt()]"),),
    unchanged="addresses",
)

hidden.pair(
    "number-in-a-random-place",
    "A value at a random place in a list, and what the list adds up to",
    different(
        """
        import random
        values = [int(n) for n in open("values.txt").read().split()]
        random.shuffle(values)
        print(values, "sum", sum(values))
        """,
        "the sum is the same in both replays, and another one in the record",
    ),
    files={"values.txt": "11 23 37 41 59 61 73"},
    change=(("61", "67"),),
    unchanged="the order is drawn without a seed",
    is_random=True,
)

hidden.pair(
    "digest-beside-a-temporary-path",
    "The checksum of a file that was written to a temporary path",
    different(
        """
        import tempfile, zlib
        with tempfile.NamedTemporaryFile(suffix=".dat") as file:
            data = open("data.txt", "rb").read()
            file.write(data)
            print(f"{file.name} crc 0x{zlib.crc32(data):08x}")
        """,
        "another checksum",
    ),
    files={"data.txt": "payload 1\n"},
    change=(("payload 1", "payload 2"),),
    unchanged="a temporary path",
)

hidden.pair(
    "percentage-in-a-bar",
    "A progress bar that stops early",
    different(
        """
        import random, time
        stop = int(open("stop.txt").read())
        for done in range(0, stop + 1, 10):
            rate = random.uniform(8, 12)
            print(f"\\r{done:3d}%|{'█' * (done // 10):<10}| {done}/100 [00:00<00:00, {rate:.2f}it/s]", end="")
        """,
        "it stops at 90 of 100 in the replay",
    ),
    files={"stop.txt": "100"},
    change=(("100", "90"),),
    unchanged="the rate is measured",
)

hidden.pair(
    "port-in-a-url",
    "A fixed port beside one that the system gave",
    different(
        """
        import socket
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        print(f"proxy http://127.0.0.1:{port}/ -> http://backend:{open('port.txt').read().strip()}/")
        """,
        "another backend; the proxy's port is given by the system",
    ),
    files={"port.txt": "8081"},
    change=(("8081", "8018"),),
    unchanged="the port is given by the system",
    is_random=True,
)

hidden.add(
    "noise-becomes-constant",
    "A number that was drawn in the record is a constant in the replay",
    different(
        "from drawing import draw\nprint('drew', draw())",
        "both replays agree and the record differs: nothing shows that it is noise",
    ),
    files={"drawing.py": "import random\n\n\ndef draw():\n    return random.randrange(10**9)\n"},
    change=(("random.randrange(10**9)", "4"),),
)

hidden.add(
    "constant-becomes-noise",
    "A constant of the record is drawn at random in the replay",
    undecidable(
        "from drawing import draw\nprint('drew', draw())",
        "it differs between the two replays, as noise does, and yet the behaviour changed",
    ),
    files={"drawing.py": "import random\n\n\ndef draw():\n    return 4\n"},
    change=(("return 4", "return random.randrange(10**9)"),),
)

hidden.add(
    "same-digits-other-meaning",
    "A time of day that happens to be a price",
    different("print('ratio', open('ratio.txt').read().strip())", "another ratio, in the form of a time of day"),
    random(
        "import random\nprint('ratio', f'{random.randrange(24):02}:{random.randrange(60):02}')", "drawn without a seed"
    ),
    same("print('ratios are like', '16:09')"),
    files={"ratio.txt": "04:03"},
    change=(("04:03", "16:09"),),
)

FAMILIES = (hidden,)
