"""What looks like noise by its form: paths, addresses, process ids, UUIDs and hashes."""

from tests.replay_histories.writing import Family, different, random, same

paths = Family("paths_and_urls")

paths.pair(
    "file-of-another-year",
    "The file that was read lies in another directory",
    different(
        """
        import json
        source = json.load(open("source.json"))["path"]
        print("reading", source)
        """,
        "sales of another year",
    ),
    files={"source.json": '{"path": "/data/2023/sales.csv"}'},
    change=(("/data/2023/", "/data/2024/"),),
)

paths.pair(
    "requests-in-a-log",
    "A path of a URL in an access log",
    different(
        """
        for line in open("access.log"):
            print(line.strip())
        """,
        "another user's orders were read",
    ),
    files={"access.log": "GET /users/17/orders 200\nGET /users/3/cart 404\n"},
    change=(("/users/17/orders", "/users/18/orders"),),
)

paths.pair(
    "top-paths",
    "Counts by path",
    different(
        """
        from collections import Counter
        hits = Counter(line.split()[1] for line in open("access.log"))
        for path, count in hits.most_common():
            print(f"{count:3} {path}")
        """,
        "one request went elsewhere",
    ),
    files={"access.log": "GET /srv/a/index.html\nGET /srv/a/index.html\nGET /srv/b/index.html\n"},
    change=(("/srv/b/index.html", "/srv/c/index.html"),),
)

paths.pair(
    "url-with-query",
    "One parameter of a URL",
    different(
        """
        import json
        from urllib.parse import urlencode
        query = json.load(open("query.json"))
        print("https://api.example.org/v2/series?" + urlencode(query))
        """,
        "another page of the series",
    ),
    files={"query.json": '{"id": "GDP", "from": 1990, "page": 2}'},
    change=(('"page": 2', '"page": 3'),),
)

paths.pair(
    "object-store-address",
    "The bucket of an address",
    different("print('model from', open('model.txt').read().strip())", "another bucket"),
    files={"model.txt": "s3://models-staging/churn/v12/model.bin"},
    change=(("models-staging", "models-production"),),
)

paths.add(
    "temporary-directory",
    "A directory of tempfile, and files in it",
    same("import tempfile, os\nfolder = tempfile.mkdtemp()\nprint('working in', folder)", "a temporary directory"),
    same(
        """
        path = os.path.join(folder, "result.csv")
        with open(path, "w") as file:
            file.write("a,b\\n1,2\\n")
        print("wrote", path)
        """,
        "a file in a temporary directory",
    ),
    "os.path.basename(path)",
)

paths.pair(
    "name-in-a-temporary-directory",
    "The name of a file in a temporary directory is data",
    different(
        """
        import tempfile, pathlib
        quarter = open("quarter.txt").read().strip()
        target = pathlib.Path(tempfile.mkdtemp()) / f"report_{quarter}.csv"
        print("saved to", target)
        """,
        "the report of another quarter; only the directory is random",
    ),
    files={"quarter.txt": "q1"},
    change=(("q1", "q2"),),
    unchanged="a temporary directory",
)

paths.pair(
    "export-directory-as-data",
    "A path below /tmp that is in the settings",
    different(
        "import json\nprint('export to', json.load(open('settings.json'))['export'])",
        "the settings name another directory",
    ),
    files={"settings.json": '{"export": "/tmp/export-17/out.parquet"}'},
    change=(("export-17", "export-71"),),
)

paths.add(
    "working-directory",
    "Paths of the session itself",
    "from pathlib import Path\nprint(Path.cwd())",
    "sorted(path.name for path in Path('.').iterdir())",
    "Path('data.csv').resolve()",
    files={"data.csv": "a\n1\n", "notes/readme.txt": "x\n"},
)

paths.pair(
    "list-of-files",
    "A glob finds another file",
    different(
        "import json\nfor path in json.load(open('index.json')):\n    print('-', path)", "another month is listed"
    ),
    files={"index.json": '["in/2024-01.csv", "in/2024-02.csv"]'},
    change=(("in/2024-02.csv", "in/2024-03.csv"),),
)

addresses = Family("addresses")

addresses.add(
    "default-representations",
    "Objects that show their addresses",
    "class Model:\n    pass",
    same("Model()", "an address"),
    same("print(Model(), [Model() for _ in range(2)])", "addresses"),
    same("print(lambda x: x + 1)\nprint(object().__repr__)", "addresses"),
    same("id(Model())", "an identity"),
)

addresses.pair(
    "class-of-an-object",
    "The class beside an address",
    "from shapes import make",
    different("make()", "an object of another class"),
    files={
        "shapes.py": "class Circle: ...\n\n\nclass Square: ...\n\n\ndef make():\n    return Circle()\n",
    },
    change=(("return Circle()", "return Square()"),),
    unchanged="an address",
)

addresses.pair(
    "checksum",
    "A checksum in hexadecimal digits",
    different(
        """
        import zlib
        crc = zlib.crc32(open("firmware.txt", "rb").read())
        print(f"crc 0x{crc:08x}")
        """,
        "the file changed, and so did its checksum",
    ),
    files={"firmware.txt": "v1.4.2 stable\n"},
    change=(("v1.4.2", "v1.4.3"),),
)

addresses.pair(
    "address-as-data",
    "The address of a crash, as it was read",
    different("print(open('crash.txt').read())", "it crashed elsewhere"),
    files={"crash.txt": "SIGSEGV at 0x7f3a2c001040 in decode_frame\n"},
    change=(("0x7f3a2c001040", "0x7f3a2c0018c8"),),
)

addresses.pair(
    "registers",
    "Registers of a device in a table",
    different(
        """
        import pandas as pd
        pd.read_csv("registers.csv")
        """,
        "one register has another value",
    ),
    files={"registers.csv": "name,value\nCTRL,0x0000ff01\nSTAT,0x80000010\n"},
    change=(("0x80000010", "0x80000011"),),
)

addresses.pair(
    "colours",
    "Colours in hexadecimal digits",
    different("import json\nprint(json.load(open('theme.json')))", "another colour for links"),
    files={"theme.json": '{"text": "#1b1f23", "link": "#0366d6"}'},
    change=(("#0366d6", "#0366d7"),),
)

addresses.pair(
    "state-beside-an-address",
    "An object that shows its address and its state",
    "from connection import Connection",
    different("Connection()", "the port changed; the address is noise"),
    files={
        "connection.py": """
        class Connection:
            port = 5432

            def __repr__(self):
                return f"<Connection to db:{self.port} at {id(self):#x}>"
        """
    },
    change=(("5432", "5433"),),
    unchanged="an address",
)

processes = Family("process_ids")

processes.add(
    "own-process-id",
    "The kernel's process id",
    same("import os\nprint('pid', os.getpid())", "a process id"),
    same("print(f'[{os.getpid()}] ready')", "a process id"),
    same("os.getpid()", "a process id"),
)

processes.pair(
    "patient-id",
    "A pid that is no process",
    different(
        """
        import json
        patient = json.load(open("patient.json"))
        print("patient pid", patient["pid"], "ward", patient["ward"])
        """,
        "another patient",
    ),
    files={"patient.json": '{"pid": 254709, "ward": "B2"}'},
    change=(("254709", "254790"),),
)

processes.pair(
    "workers",
    "Process ids of workers beside what they did",
    different(
        """
        import os, subprocess, sys
        for part in open("parts.txt").read().split():
            done = subprocess.run(
                [sys.executable, "-S", "-c", f"import os; print('worker', os.getpid(), 'took part {part}')"],
                capture_output=True, text=True,
            )
            print(done.stdout, end="")
        """,
        "the second worker took another part",
    ),
    files={"parts.txt": "17 18"},
    change=(("18", "19"),),
    unchanged="process ids",
)

processes.pair(
    "pid-column",
    "A pid column of a log that was read",
    different(
        """
        import pandas as pd
        log = pd.read_csv("processes.csv")
        log
        """,
        "another process in the log",
    ),
    files={"processes.csv": "pid,user,cpu\n812,postgres,3.5\n4410,www-data,11.0\n"},
    change=(("4410", "4401"),),
)

identifiers = Family("identifiers_and_hashes")

identifiers.add(
    "random-uuid",
    "Identifiers that are drawn for each run",
    random("import uuid\nprint('run', uuid.uuid4())", "drawn at random"),
    random("import secrets\nsecrets.token_hex(16)", "drawn at random"),
    random("hash('same text')", "Python's hashes of strings differ from process to process"),
    "uuid.uuid5(uuid.NAMESPACE_DNS, 'example.org')",
)

identifiers.pair(
    "uuid-as-data",
    "A UUID that was read",
    different("import json\nprint('device', json.load(open('device.json'))['id'])", "another device"),
    files={"device.json": '{"id": "6fa459ea-ee8a-4ca4-894e-db77e160355e"}'},
    change=(("db77e160355e", "db77e160355f"),),
)

identifiers.pair(
    "digest-of-a-file",
    "The SHA-256 of a file that changed",
    different(
        """
        import hashlib
        print(hashlib.sha256(open("contract.txt", "rb").read()).hexdigest(), " contract.txt")
        """,
        "the file changed",
    ),
    files={"contract.txt": "We pay within 30 days.\n"},
    change=(("30 days", "60 days"),),
)

identifiers.pair(
    "commits",
    "Short hashes of commits",
    different("print(open('log.txt').read())", "another commit"),
    files={"log.txt": "9c1e44a Fix rounding\n03d7f1b Add export\n"},
    change=(("03d7f1b", "03d7f2b"),),
)

identifiers.pair(
    "amount-beside-a-uuid",
    "A booking with a new UUID and an amount",
    different(
        """
        import uuid
        amount = open("amount.txt").read().strip()
        print(f"booking {uuid.uuid4()} amount {amount} EUR")
        """,
        "the amount changed; the UUID is random",
    ),
    files={"amount.txt": "125.00"},
    change=(("125.00", "152.00"),),
    unchanged="the UUID is drawn at random",
    is_random=True,
)

identifiers.pair(
    "uuids-in-a-table",
    "A table with a column of new UUIDs",
    different(
        """
        import uuid
        import pandas as pd
        people = pd.read_csv("people.csv")
        people.insert(0, "key", [str(uuid.uuid4()) for _ in range(len(people))])
        people
        """,
        "one age changed; the keys are random",
    ),
    files={"people.csv": "name,age\nAda,36\nGrace,85\n"},
    change=(("85", "84"),),
    unchanged="the keys are drawn at random",
    is_random=True,
)

identifiers.pair(
    "password-hash",
    "A salted hash and whether it was right",
    different(
        """
        import hashlib, os
        salt = os.urandom(8)
        digest = hashlib.pbkdf2_hmac("sha256", b"secret", salt, 1000).hex()
        tried = hashlib.pbkdf2_hmac("sha256", open("tried.txt", "rb").read().strip(), salt, 1000).hex()
        print(digest[:32], "matches" if tried == digest else "does not match")
        """,
        "it does not match in the replay",
    ),
    files={"tried.txt": "secret"},
    change=(("secret", "secreT"),),
    unchanged="the salt is drawn at random",
    is_random=True,
)

FAMILIES = (paths, addresses, processes, identifiers)
