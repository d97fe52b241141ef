"""Order ids and other long integers, and fractions."""

from tests.replay_histories.writing import Family, different, same, undecidable

ids = Family("long_integers")

ids.pair(
    "order-id-printed",
    "An order id of fifteen digits ends otherwise",
    different(
        """
        import json
        order = json.load(open("order.json"))
        print("order", order["id"], "for", order["customer"])
        """,
        "the replay shows another order",
    ),
    files={"order.json": '{"id": 140000000000001, "customer": "Nilsson"}\n'},
    change=(("140000000000001", "140000000000999"),),
)

ids.pair(
    "order-ids-in-a-table",
    "One of four order ids in a table changes in its middle",
    different(
        """
        import pandas as pd
        orders = pd.read_csv("orders.csv")
        orders
        """,
        "the third row is another order",
    ),
    "print(len(orders), 'orders,', orders.amount.sum(), 'EUR')",
    files={
        "orders.csv": """
        order_id,amount
        7300451200018,19.5
        7300451200025,7.25
        7300451200032,110.0
        7300451200049,3.75
        """
    },
    change=(("7300451200032", "7300481200032"),),
)

ids.pair(
    "ids-as-json-text",
    "A message id inside printed JSON",
    different(
        """
        import json
        event = json.load(open("event.json"))
        print(json.dumps(event, indent=2))
        """,
        "message_id changed",
    ),
    files={"event.json": '{"message_id": 1254967713882214400, "channel": "alerts", "unread": 3}'},
    change=(("1254967713882214400", "1254967713882214401"),),
)

ids.pair(
    "unix-timestamps-as-data",
    "Seconds since 1970 of logged events, shown as they were read",
    different(
        """
        events = [line.split() for line in open("events.log")]
        for seconds, what in events:
            print(int(seconds), what)
        """,
        "the second event happened an hour later",
    ),
    files={"events.log": "1700000000 door-open\n1700000420 door-closed\n1700009999 alarm\n"},
    change=(("1700000420", "1700004020"),),
)

ids.pair(
    "phone-numbers",
    "One digit of a phone number",
    different(
        """
        contacts = dict(line.strip().split(";") for line in open("contacts.txt"))
        for name, number in contacts.items():
            print(f"{name:10} {number}")
        """,
        "another number for Jansen",
    ),
    files={"contacts.txt": "Okafor;+2348035550142\nJansen;+31205550187\n"},
    change=(("+31205550187", "+31205550181"),),
)

ids.pair(
    "populations",
    "A count with thousands separators",
    different(
        """
        import pandas as pd
        towns = pd.read_csv("towns.csv")
        for town in towns.itertuples():
            print(f"{town.name:>10}: {town.people:,}")
        """,
        "one town has one inhabitant more",
    ),
    files={"towns.csv": "name,people\nAalen,68456\nLagos,15387639\nTurin,841600\n"},
    change=(("15387639", "15387640"),),
)

ids.pair(
    "account-number",
    "Two digits of an account number change places",
    different(
        """
        account = open("account.txt").read().strip()
        account
        """,
        "another account",
    ),
    files={"account.txt": "DE89370400440532013000\n"},
    change=(("0532013000", "0532010300"),),
)

ids.pair(
    "accumulated-count",
    "A library computes a large count otherwise after an update",
    "from counting import ways",
    different("[ways(n) for n in (10, 40, 60)]", "the last count is larger by one"),
    files={
        "counting.py": """
        def ways(n):
            a, b = 0, 1
            for _ in range(n):
                a, b = b, a + b
            return a + (n > 50) * 0
        """
    },
    change=(("(n > 50) * 0", "(n > 50) * 1"),),
)

ids.add(
    "large-exact-numbers",
    "Factorials and powers",
    "import math\nmath.factorial(30)",
    "print(2**128, 3**80, sep='\\n')",
    "sum(int(digit) for digit in str(2**1000))",
)

ids.add(
    "time-of-the-run-in-seconds",
    "The run's own time as seconds and nanoseconds since 1970",
    same("import time\nprint('started at', int(time.time()))", "now, by the run's own clock"),
    same("time.time_ns()", "now, by the run's own clock"),
)

fractions = Family("fractions")

fractions.pair(
    "mean-in-the-fourth-digit",
    "A mean changes in its fourth digit",
    different(
        """
        import numpy as np
        values = np.loadtxt("values.txt")
        print("mean", values.mean())
        """,
        "the mean changed far above the last digit",
    ),
    files={"values.txt": "3.25\n4.5\n1.125\n8.0625\n"},
    change=(("4.5\n", "4.504\n"),),
)

fractions.pair(
    "order-of-a-sum",
    "A library sums in another order after an update; another update changes the sum",
    "from summing import total\nimport random\nrandom.seed(4)\nvalues = [random.uniform(0, 1000) for _ in range(2000)]",
    different("total(values)", "the sum is off by an eighth"),
    files={"summing.py": "def total(values):\n    return sum(values) + 0.000\n"},
    change=(("0.000", "0.125"),),
)

fractions.add(
    "last-digit-of-a-sum",
    "The same sum in another order differs in the sixteenth digit",
    "from summing import total\nvalues = [0.1 * n for n in range(1, 40)]",
    same("total(values)", "fractions are compared to nine digits"),
    same("print('total', total(values), 'mean', total(values) / 39)", "fractions are compared to nine digits"),
    files={"summing.py": "def total(values):\n    return sum(values)\n"},
    change=(("sum(values)", "sum(reversed(values))"),),
)

fractions.add(
    "binary-rounding",
    "0.30000000000000004 where a library now rounds to 0.3",
    "from adding import add",
    same("add(0.1, 0.2)", "fractions are compared to nine digits"),
    files={"adding.py": "def add(a, b):\n    return a + b\n"},
    change=(("a + b", "round(a + b, 12)"),),
)

fractions.add(
    "one-in-the-last-shown-digit",
    "A measured value, shown with six digits, changes by one in the last of them",
    undecidable(
        "print(f\"{float(open('reading.txt').read()):.6f} V\")",
        "the documentation lets the last of six shown digits pass, and yet the reading is another one",
    ),
    files={"reading.txt": "1.234567\n"},
    change=(("1.234567", "1.234568"),),
)

fractions.pair(
    "percentages",
    "A percentage with one decimal",
    different(
        """
        votes = dict(line.split() for line in open("votes.txt"))
        total = sum(map(int, votes.values()))
        for party, count in votes.items():
            print(f"{party}: {int(count) / total:.1%}")
        """,
        "one party gained half a point, the other lost it",
    ),
    files={"votes.txt": "red 4120\nblue 3880\n"},
    change=(("red 4120", "red 4160"), ("blue 3880", "blue 3840")),
)

fractions.pair(
    "sign-of-a-coefficient",
    "A regression coefficient changes its sign",
    """
    import numpy as np
    x, y = np.loadtxt("points.txt", unpack=True)
    """,
    different("np.polyfit(x, y, 1).round(4)", "the slope is negative in the replay"),
    files={"points.txt": "0 1\n1 1.5\n2 2\n3 2.5\n"},
    change=(("0 1\n", "0 2.5\n"), ("1 1.5\n", "1 2\n"), ("2 2\n", "2 1.5\n"), ("3 2.5\n", "3 1\n")),
)

fractions.pair(
    "exponent",
    "A p-value changes by powers of ten",
    different(
        """
        import json
        result = json.load(open("result.json"))
        print(f"t = {result['t']:.3f}, p = {result['p']:.2e}")
        """,
        "another p-value",
    ),
    files={"result.json": '{"t": 4.213, "p": 2.71e-05}'},
    change=(("2.71e-05", "2.71e-03"),),
)

fractions.pair(
    "nan-for-a-number",
    "A value is missing",
    different(
        """
        import numpy as np
        np.genfromtxt("row.csv", delimiter=",")
        """,
        "the second value is missing in the replay",
    ),
    files={"row.csv": "1.5,2.5,3.5\n"},
    change=(("2.5", ""),),
)

fractions.pair(
    "unit",
    "The unit beside a number that stays",
    different(
        """
        import json
        tank = json.load(open("tank.json"))
        print(tank["volume"], tank["unit"])
        """,
        "litres became gallons",
    ),
    files={"tank.json": '{"volume": 42.5, "unit": "l"}'},
    change=(('"l"', '"gal"'),),
)

FAMILIES = (ids, fractions)
