"""What tools print while they work: shell commands, training, progress bars, warnings, tracebacks, streams."""

from tests.replay_histories.writing import Family, different, random, same, undecidable

MEASURED = "rates and durations are measured"

shell = Family("shell")

shell.pair(
    "list-of-files",
    "ls -l: times are those of the run, sizes are data",
    different("!ls -l in", "one file is longer"),
    files={"in/a.csv": "x\n1\n2\n", "in/b.csv": "x\n3\n"},
    change=(("x\n3\n", "x\n3\n4\n5\n"),),
    unchanged="the files are as old as the run",
)

shell.pair(
    "list-in-python",
    "Sizes and times of files from os.stat",
    different(
        """
        import os, time
        for name in sorted(os.listdir("in")):
            info = os.stat(f"in/{name}")
            print(f"{name:8} {info.st_size:6} {time.strftime('%b %d %H:%M', time.localtime(info.st_mtime))}")
        """,
        "one file is longer",
    ),
    files={"in/a.csv": "x\n1\n2\n", "in/b.csv": "x\n3\n"},
    change=(("x\n3\n", "x\n33\n"),),
    unchanged="the files are as old as the run",
)

shell.pair(
    "rights",
    "ls -l: the rights of a file",
    "import os\nos.chmod('run.sh', int(open('mode.txt').read(), 8))",
    different("%%bash\nls -l run.sh", "it is executable in the replay"),
    files={"run.sh": "true\n", "mode.txt": "644"},
    change=(("644", "755"),),
    unchanged="the files are as old as the run",
)

shell.add(
    "date-and-process",
    "The date and the shell's process id",
    same("!date", "now, by the run's own clock"),
    same("%%bash\necho shell $$", "a process id"),
    "%%bash\necho $((6 * 7))",
)

shell.pair(
    "word-count",
    "wc and head",
    different("!wc -l names.txt", "one line more"),
    "!head -n 2 names.txt",
    files={"names.txt": "Ada\nGrace\nKatherine\n"},
    change=(("Katherine\n", "Katherine\nMary\n"),),
)

shell.pair(
    "command-with-a-value",
    "A shell line that prints a variable of Python",
    "threshold = open('threshold.txt').read().strip()",
    different("!echo threshold is {threshold}", "another threshold"),
    files={"threshold.txt": "0.5"},
    change=(("0.5", "0.7"),),
)

training = Family("training_logs")

KERAS = """
import random, time

def fit(losses, steps=4):
    for epoch, (loss, accuracy) in enumerate(losses, 1):
        print(f"Epoch {epoch}/{len(losses)}")
        began = time.perf_counter()
        time.sleep(random.uniform(0.002, 0.05))
        per_step = (time.perf_counter() - began) * 1000 / steps
        line = f"{steps}/{steps} - 0s {per_step:.0f}ms/step - accuracy: {accuracy:.4f} - loss: {loss:.4f}"
        print("\\x1b[1m1/4\\x1b[0m ......\\r" + line)
"""

training.pair(
    "keras",
    "Epochs as Keras prints them",
    "from keras_like import fit\nimport json",
    different("fit(json.load(open('losses.json')))", "another loss in the second epoch"),
    files={"keras_like.py": KERAS, "losses.json": "[[0.6931, 0.5125], [0.5512, 0.7321], [0.4870, 0.7985]]"},
    change=(("0.5512", "0.5712"),),
    unchanged=MEASURED,
)

TORCH = """
import random, time

def train(losses):
    for epoch, loss in enumerate(losses, 1):
        began = time.perf_counter()
        time.sleep(random.uniform(0.005, 0.06))
        print(f"Epoch {epoch}/{len(losses)} - {time.perf_counter() - began:.2f}s - loss: {loss:.4f} - lr: 1.0e-03")
"""

training.pair(
    "torch-loop",
    "Epochs as a loop around PyTorch prints them",
    "from loop import train",
    different("train([float(line) for line in open('losses.txt')])", "the last loss changed"),
    files={"loop.py": TORCH, "losses.txt": "0.9132\n0.6120\n0.4477\n"},
    change=(("0.4477", "0.4471"),),
    unchanged=MEASURED,
)

training.add(
    "torch-loop-without-a-seed",
    "Epochs whose losses are drawn",
    "from loop import train\nimport random",
    random("train([random.uniform(0.4, 0.5) for _ in range(3)])", "losses are drawn without a seed"),
    files={"loop.py": TORCH},
)

LIGHTGBM = """
import random, time

def train(rows, columns, scores):
    seconds = random.uniform(0.0001, 0.004)
    print("[LightGBM] [Info] Auto-choosing row-wise multi-threading, "
          f"the overhead of testing was {seconds:.6f} seconds.")
    print("You can set `force_row_wise=true` to remove the overhead.")
    print(f"[LightGBM] [Info] Total Bins {rows // 2 + 17}")
    print(f"[LightGBM] [Info] Number of data points in the train set: {rows}, number of used features: {columns}")
    for place, score in enumerate(scores, 1):
        print(f"[{place * 10}]\\tvalid_0's binary_logloss: {score}")
"""

training.pair(
    "lightgbm",
    "What LightGBM says of a training set",
    "from lightgbm_like import train\nimport json",
    different("train(**json.load(open('set.json')))", "the training set has one row more"),
    files={
        "lightgbm_like.py": LIGHTGBM,
        "set.json": '{"rows": 4801, "columns": 12, "scores": [0.512, 0.447, 0.431]}',
    },
    change=(("4801", "4811"),),
    unchanged=MEASURED,
)

training.pair(
    "verbose-fit",
    "scikit-learn's own verbose output",
    "import numpy as np\nfrom sklearn.ensemble import GradientBoostingRegressor\ndata = np.loadtxt('data.txt')",
    different(
        """
        model = GradientBoostingRegressor(n_estimators=4, verbose=2, random_state=0)
        model.fit(data[:, :1], data[:, 1]).score(data[:, :1], data[:, 1])
        """,
        "other data, other losses",
    ),
    files={"data.txt": "1 2\n2 3\n3 5\n4 4\n5 7\n"},
    change=(("4 4", "4 9"),),
    unchanged="the time that remains is estimated",
)

PIP = """
import random, time

def install(name, version):
    print(f"Collecting {name}")
    print(f"  Downloading {name}-{version}-py3-none-any.whl.metadata (5.1 kB)")
    print(f"Downloading {name}-{version}-py3-none-any.whl (1.2 MB)")
    for done in (0.2, 0.7, 1.2):
        rate = random.uniform(2, 40)
        bar = "\\u2501" * int(40 * done / 1.2)
        print(f"\\r   {bar} {done}/1.2 MB {rate:.1f} MB/s eta 0:00:00", end="", flush=True)
    print()
    print(f"Installing collected packages: {name}")
    print(f"Successfully installed {name}-{version}")
"""

training.pair(
    "pip-install",
    "What pip prints: rates are measured, the version is data",
    "from pip_like import install",
    different("install('tinygraph', open('version.txt').read().strip())", "another version was installed"),
    files={"pip_like.py": PIP, "version.txt": "1.4.0"},
    change=(("1.4.0", "1.5.0"),),
    unchanged=MEASURED,
)

bars = Family("progress_bars")

bars.pair(
    "carriage-returns",
    "A counter that overwrites itself, and what it says at the end",
    different(
        """
        import time
        errors = set(open("errors.txt").read().split())
        for n in range(1, 21):
            print(f"\\rchecked {n}/20, {sum(str(k) in errors for k in range(1, n + 1))} errors", end="", flush=True)
            time.sleep(0.001)
        print()
        """,
        "one error more",
    ),
    files={"errors.txt": "4 17"},
    change=(("17", "17 19"),),
)

bars.pair(
    "bar-with-rate",
    "A bar that ends with a measured rate",
    different(
        """
        import random, time
        total = int(open("total.txt").read())
        began = time.perf_counter()
        for n in range(total):
            time.sleep(random.uniform(0, 0.004))
            done = n + 1
            rate = done / (time.perf_counter() - began)
            print(f"\\r{100 * done // total:3d}%|{'#' * done:<{total}}| {done}/{total} [{rate:.2f}it/s]", end="")
        """,
        "another total",
    ),
    files={"total.txt": "12"},
    change=(("12", "14"),),
    unchanged=MEASURED,
)

bars.add(
    "tqdm-notebook-parts",
    "Two bars of tqdm, one within the other, and a write beside them",
    same(
        """
        import time
        from tqdm import tqdm
        for page in tqdm(range(3), desc="pages"):
            for line in tqdm(range(5), desc="lines", leave=False):
                time.sleep(0.001)
        """,
        MEASURED,
    ),
    same("for n in tqdm([1, 2, 3]):\n    tqdm.write(f'item {n}')", MEASURED),
)

warned = Family("warnings")

warned.pair(
    "own-warning",
    "A warning of a cell, whose place has a path that no two kernels share",
    different(
        """
        import warnings
        missing = open("values.txt").read().split().count("-")
        warnings.warn(f"{missing} values are missing")
        print("checked")
        """,
        "three are missing in the replay",
    ),
    files={"values.txt": "4 - 5 - 6"},
    change=(("4 -", "- -"),),
    unchanged="the path of the cell's code",
)

warned.add(
    "place-in-a-module",
    "The line of a module that warns moved, because a comment was added above it",
    undecidable(
        "from reading import read\nread()",
        "the message is the same, the line is that of another version of the module",
    ),
    "print('read')",
    files={
        "reading.py": "import warnings\n\n\ndef read():\n    warnings.warn('the file is old', stacklevel=1)\n",
    },
    change=(("def read", "# reads nothing\ndef read"),),
)

warned.pair(
    "category",
    "The category of a warning",
    different("from old import call\ncall()", "a FutureWarning became a UserWarning"),
    files={
        "old.py": "import warnings\n\n\ndef call():\n    warnings.warn('use invoke()', FutureWarning, stacklevel=1)\n",
    },
    change=(("FutureWarning", "UserWarning"),),
)

warned.pair(
    "numerical-warning",
    "A warning of NumPy beside a result",
    different(
        "import numpy as np\nvalues = np.loadtxt('values.txt')\nnp.log(values).round(4)",
        "a logarithm of zero in the replay",
    ),
    files={"values.txt": "1.0\n2.5\n4.0\n"},
    change=(("2.5", "0.0"),),
)

failures = Family("tracebacks")

failures.pair(
    "message",
    "An error whose message says what was missing",
    "import json\nsettings = json.load(open('settings.json'))",
    different("settings[settings['use']]", "the error names another key"),
    "print('after the error')",
    files={"settings.json": '{"use": "fast"}'},
    change=(("fast", "slow"),),
)

failures.add(
    "kind",
    "A cell that raises another error in the replay",
    different("value = open('value.txt').read()\n10 / int(value)", "ZeroDivisionError became ValueError"),
    "print(len('ok'))",
    files={"value.txt": "0"},
    change=(("0", "zero"),),
)

failures.add(
    "error-gone",
    "An error in the record, none in the replay",
    different("assert int(open('count.txt').read()) > 5, 'too few'", "it succeeds in the replay"),
    files={"count.txt": "4"},
    change=(("4", "14"),),
)

failures.add(
    "error-new",
    "No error in the record, one in the replay",
    different("rows = open('rows.txt').read().split(',')\nprint(rows[3])", "an IndexError in the replay"),
    files={"rows.txt": "a,b,c,d"},
    change=((",d", ""),),
)

failures.add(
    "line-of-the-error",
    "The same error from another line of a module: tracebacks do not count",
    "from dividing import share",
    same("share(10, 0)", "an error is its name and its message"),
    files={"dividing.py": "def share(total, parts):\n    return total / parts\n"},
    change=(("    return", "    # equal parts\n    return"),),
)

failures.pair(
    "address-in-a-message",
    "An error whose message has an address",
    "from stores import open_store",
    different("open_store()", "another store in the error, and an address"),
    files={
        "stores.py": """
        class Store:
            pass


        class Cache:
            pass


        def open_store():
            raise RuntimeError(f"cannot open {Store()}")
        """
    },
    change=(("{Store()}", "{Cache()}"),),
    unchanged="an address in the error's message",
)

failures.pair(
    "printed-traceback",
    "A traceback that the code prints itself",
    different(
        """
        import traceback
        try:
            int(open("n.txt").read())
        except ValueError as error:
            print(type(error).__name__, error)
        """,
        "another text was refused",
    ),
    files={"n.txt": "12a"},
    change=(("12a", "12b"),),
)

failures.add(
    "hidden-name",
    "A name that no cell defines: an error in both",
    "price = 20",
    "price * tax_rate",
    "print(price)",
)

streams = Family("streams_and_displays")

streams.pair(
    "interleaved",
    "stdout and stderr, one after the other",
    different(
        """
        import sys
        for n, word in enumerate(open("words.txt").read().split()):
            print(word, file=sys.stderr if n % 2 else sys.stdout, flush=True)
        """,
        "one word on stderr changed",
    ),
    files={"words.txt": "alpha beta gamma delta epsilon"},
    change=(("delta", "data"),),
)

streams.add(
    "order-of-streams",
    "The same texts on both streams in another order between them",
    same("from talk import talk\ntalk()", "how streams lie between each other does not count"),
    files={
        "talk.py": """
        import sys


        def talk():
            print("loading", flush=True)
            print("careful", file=sys.stderr, flush=True)
            print("loaded", flush=True)
        """
    },
    change=(
        ('print("loaded", flush=True)', "pass"),
        ('print("careful"', 'print("loaded", flush=True); print("careful"'),
    ),
)

streams.add(
    "other-stream",
    "A line moves from stdout to stderr",
    different("from talk import talk\ntalk()", "a stream each is compared"),
    files={"talk.py": "import sys\n\n\ndef talk():\n    print('ready', file=sys.stdout)\n    print('go')\n"},
    change=(("sys.stdout", "sys.stderr"),),
)

streams.pair(
    "updated-display",
    "A display that is updated until it says the result",
    different(
        """
        from IPython.display import display
        shown = display("working", display_id=True)
        total = 0
        for n in open("n.txt").read().split():
            total += int(n)
            shown.update(f"total {total}")
        """,
        "another total",
    ),
    files={"n.txt": "3 4 5"},
    change=(("5", "6"),),
)

streams.pair(
    "updated-by-a-later-cell",
    "A later cell updates the display of an earlier one",
    different(
        "from IPython.display import display\nstatus = display('waiting', display_id='status')",
        "it says another name in the end",
    ),
    "who = open('who.txt').read().strip()",
    "from IPython.display import update_display\nupdate_display('done by ' + who, display_id='status')",
    files={"who.txt": "Ida"},
    change=(("Ida", "Ada"),),
)

streams.pair(
    "cleared",
    "Output that is cleared and shown again",
    different(
        """
        from IPython.display import clear_output
        for step in open("steps.txt").read().split():
            clear_output(wait=True)
            print("step", step)
        """,
        "another last step",
    ),
    files={"steps.txt": "1 2 3"},
    change=(("1 2 3", "1 2 4"),),
)

streams.add(
    "shows-something-now",
    "A cell without output has one in the replay",
    different(
        "for line in open('problems.txt'):\n    if 'ERROR' in line:\n        print('problem:', line.strip())",
        "it printed nothing in the record",
    ),
    "checked = True",
    files={"problems.txt": "INFO start\nINFO end\n"},
    change=(("INFO end", "ERROR disk is full"),),
)

streams.add(
    "shows-nothing-now",
    "A cell with a result has none in the replay",
    "import json\nbest = json.load(open('best.json'))['best']",
    different("best", "nothing is shown in the replay"),
    files={"best.json": '{"best": "model-3"}'},
    change=(('"model-3"', "null"),),
)

streams.add(
    "displays-in-another-order",
    "Two displays change places",
    different(
        "from IPython.display import display, Markdown\n"
        "for part in open('parts.txt').read().split():\n    display(Markdown(f'**{part}**'))",
        "displays are compared in their order",
    ),
    files={"parts.txt": "summary details"},
    change=(("summary details", "details summary"),),
)

streams.add(
    "one-display-more",
    "A third display",
    different(
        "from IPython.display import display, HTML\n"
        "for part in open('parts.txt').read().split():\n    display(HTML(f'<b>{part}</b>'))",
        "one display more",
    ),
    files={"parts.txt": "a b"},
    change=(("a b", "a b c"),),
)

streams.add(
    "lines-of-threads",
    "Lines that threads print as they come",
    random(
        """
        import random, threading, time

        def work(n):
            time.sleep(random.uniform(0, 0.03))
            print(f"thread {n} ends\\n", end="")

        threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
        "the order in which threads end",
    ),
    "print('all ended')",
)

machine = Family("memory_and_environment")

machine.add(
    "memory-of-the-process",
    "What the process uses",
    random(
        "import psutil\nprint(f'RSS: {psutil.Process().memory_info().rss / 2**20:.2f} MiB')",
        "memory that the run measured",
    ),
    random(
        "import random, tracemalloc\ntracemalloc.start()\n"
        "block = [bytes(random.randrange(50, 90)) for _ in range(2000)]\n"
        "current, peak = tracemalloc.get_traced_memory()\nprint(f'peak memory: {peak / 1024:.1f} KiB')",
        "memory that the run measured",
    ),
    "len(block)",
)

machine.pair(
    "memory-of-a-table",
    "The memory of a table is a fact of its data",
    "import pandas as pd\nids = pd.read_csv('ids.csv')",
    different("print('memory usage:', ids.memory_usage(index=False).sum(), 'bytes')", "one row more"),
    files={"ids.csv": "id\n1\n2\n3\n"},
    change=(("3\n", "3\n4\n"),),
)

machine.add(
    "host-name",
    "The name of the machine",
    random("import platform\nprint('running on', platform.node())", "each sandbox has a name of its own"),
    random("!hostname", "each sandbox has a name of its own"),
)

machine.pair(
    "version-of-a-library",
    "A library was updated",
    "import tinystats, sys",
    different("print('tinystats', tinystats.__version__)", "another version"),
    "sys.version_info.major",
    files={"tinystats.py": "__version__ = '2.3.1'\n"},
    change=(("2.3.1", "2.4.0"),),
)

machine.add(
    "versions",
    "Versions of what is installed",
    "import sys, numpy, pandas\nprint(numpy.__version__, pandas.__version__)",
    "sys.version.split()[0]",
    "import platform\nplatform.system(), platform.machine()",
)

FAMILIES = (shell, training, bars, warned, failures, streams, machine)
