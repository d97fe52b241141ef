"""DataFrames, random numbers, scores of models, and what has no order."""

from tests.replay_histories.writing import Family, different, different_and_random, random, same, undecidable

SALES = """
region,units,price
north,12,3.5
south,7,4.25
east,9,1.75
west,30,2.0
"""
READ = "import pandas as pd\nsales = pd.read_csv('sales.csv')"

tables = Family("tables")

tables.pair(
    "one-cell",
    "One number of a table",
    READ,
    different("sales", "units of the south"),
    "print(len(sales))",
    files={"sales.csv": SALES},
    change=(("south,7", "south,8"),),
)

tables.add(
    "column-order",
    "The columns stand in another order, and then in one that the code sets",
    READ,
    different("sales", "another order of columns"),
    same("sales[['region', 'units', 'price']]", "the code sets the order"),
    files={"sales.csv": "region,units,price\nnorth,12,3.5\nsouth,7,4.25\n"},
    change=(("region,units,price", "region,price,units"), ("12,3.5", "3.5,12"), ("7,4.25", "4.25,7")),
)

tables.add(
    "integers-become-fractions",
    "A column of integers has a missing value in the replay",
    READ,
    different("sales.dtypes", "units are floats"),
    different("sales", "a NaN"),
    different("sales['units'].sum()", "another sum"),
    files={"sales.csv": SALES},
    change=(("south,7", "south,"),),
)

tables.add(
    "header-renamed",
    "A column has another name",
    READ,
    different("sales.head(2)", "another header"),
    different("sales.groupby('region').units.sum()", "the groups' column is gone: an error in the replay"),
    "sales.shape",
    files={"sales.csv": SALES},
    change=(("region,", "area,"),),
)

tables.add(
    "one-row-more",
    "A row was added at the end of a long table that is shown in part",
    "import pandas as pd\nprices = pd.read_csv('prices.csv')",
    different("prices", "the last row, and their number"),
    same("prices.head(3)", "the first rows stayed"),
    different("print(prices.shape)", "one row more"),
    files={"prices.csv": "day,price\n" + "".join(f"{n},{n * n % 97}.5\n" for n in range(80))},
    change=(("79,", "79,1.5\n80,"),),
)

tables.pair(
    "sorted-otherwise",
    "Two rows change places",
    READ,
    different("sales", "another order of rows"),
    "sales.sort_values('units').reset_index(drop=True)",
    files={"sales.csv": SALES},
    change=(("south,7,4.25\neast,9,1.75", "east,9,1.75\nsouth,7,4.25"),),
)

tables.pair(
    "printed-table",
    "A table printed as text: one name",
    READ,
    different("print(sales.to_string(index=False))", "west became far-west"),
    files={"sales.csv": SALES},
    change=(("west,30", "wost,30"),),
)

tables.pair(
    "index",
    "The labels of the index",
    different(
        """
        import pandas as pd
        pd.read_csv("sales.csv", index_col="region").T
        """,
        "another label",
    ),
    files={"sales.csv": SALES},
    change=(("east", "easy"),),
)

tables.pair(
    "value-counts",
    "Counts of categories",
    different(
        """
        import pandas as pd
        answers = pd.Series(open("answers.txt").read().split())
        answers.value_counts()
        """,
        "one yes became a no",
    ),
    files={"answers.txt": "yes yes no yes maybe no yes no no no yes yes"},
    change=(("maybe no yes", "maybe no no"),),
)

tables.pair(
    "summary",
    "describe() of a table with an outlier",
    READ,
    different("sales.describe()", "another maximum"),
    different("sales.describe().to_string()[:80]", "other numbers"),
    files={"sales.csv": SALES},
    change=(("west,30", "west,300"),),
)

tables.pair(
    "groups-by-two-keys",
    "A table with an index of two levels",
    different(
        """
        import pandas as pd
        visits = pd.read_csv("visits.csv")
        visits.groupby(["site", "day"])["n"].sum().unstack(fill_value=0)
        """,
        "two visits less",
    ),
    files={"visits.csv": "site,day,n\na,mon,3\na,tue,5\nb,mon,4\nb,tue,9\n"},
    change=(("b,tue,9", "b,tue,7"),),
)

tables.pair(
    "styled-table",
    "A table with colours that say what is out of bounds",
    READ,
    different(
        """
        limits = pd.read_csv("limits.csv")["limit"][0]
        sales.style.map(lambda n: "color: red" if n > limits else "", subset=["units"])
        """,
        "nine units are red in the replay",
    ),
    files={"sales.csv": SALES, "limits.csv": "limit\n10\n"},
    change=(("limit\n10", "limit\n8"),),
    unchanged="the style's identifiers are drawn at random",
)

tables.pair(
    "table-info",
    "info() of a table",
    READ,
    different("sales.info()", "a missing value"),
    files={"sales.csv": SALES},
    change=(("1.75", ""),),
)

tables.pair(
    "sign",
    "A balance changes its sign",
    different(
        """
        import pandas as pd
        pd.read_csv("accounts.csv").set_index("account")
        """,
        "a debt became a credit",
    ),
    files={"accounts.csv": "account,balance\nA,-1250.00\nB,310.50\n"},
    change=(("-1250.00", "1250.00"),),
)

drawn = Family("random_numbers")

drawn.pair(
    "seeded",
    "Random numbers with a seed from the settings",
    "import json\nimport numpy as np\nrng = np.random.default_rng(json.load(open('settings.json'))['seed'])",
    different("rng.normal(size=4).round(4)", "another seed"),
    different("print(rng.integers(0, 100, 8))", "another seed"),
    files={"settings.json": '{"seed": 42}'},
    change=(("42", "43"),),
)

drawn.add(
    "unseeded",
    "Random numbers without a seed",
    random("import numpy as np\nnp.random.rand(3)", "drawn without a seed"),
    random("import random\nprint('drew', random.sample(range(100), 5))", "drawn without a seed"),
    random("import pandas as pd\npd.DataFrame(np.random.rand(3, 2), columns=['a', 'b'])", "drawn without a seed"),
    "np.random.rand(3, 2).shape",
)

drawn.pair(
    "label-beside-random-column",
    "A table of a fixed column and a random one",
    different(
        """
        import numpy as np
        import pandas as pd
        plots = pd.read_csv("plots.csv")
        plots.assign(noise=np.random.rand(len(plots)).round(3))
        """,
        "one crop changed; the noise is random",
    ),
    files={"plots.csv": "plot,crop\n1,wheat\n2,rye\n3,oats\n"},
    change=(("rye", "rice"),),
    unchanged="the noise column is drawn without a seed",
    is_random=True,
)

drawn.pair(
    "sampled-mean",
    "A bootstrap beside the mean of the data",
    "import numpy as np\ndata = np.loadtxt('data.txt')",
    different(
        """
        means = [np.random.choice(data, len(data)).mean() for _ in range(200)]
        print(f"mean {data.mean():.4f}, interval {np.quantile(means, .025):.4f} to {np.quantile(means, .975):.4f}")
        """,
        "the mean changed; the interval is drawn",
    ),
    files={"data.txt": "4.1\n5.2\n3.9\n6.6\n5.0\n"},
    change=(("6.6", "7.6"),),
    unchanged="the interval is drawn without a seed",
    is_random=True,
)

drawn.pair(
    "shuffled-names",
    "Names in a random order, and how many they are",
    different(
        """
        import random
        names = open("names.txt").read().split()
        random.shuffle(names)
        print(len(names), "players,", names[0], "begins")
        """,
        "one player more",
    ),
    files={"names.txt": "Ann Bo Cy Dee Eli Fay Gus Hal Ira Joy"},
    change=(("Ira Joy", "Ira Joy Kim"),),
    unchanged="who begins is drawn without a seed",
    is_random=True,
)

drawn.add(
    "split-without-a-seed",
    "A split of data without a seed: sizes stay, rows do not",
    "import numpy as np\nfrom sklearn.model_selection import train_test_split\nX = np.arange(40).reshape(20, 2)",
    "train, test = train_test_split(X)\nprint(train.shape, test.shape)",
    random("test[:2]", "which rows are drawn"),
)

scores = Family("model_scores")

FOREST = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 6))
y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(scale=0.4, size=300) > 0).astype(int)
"""

scores.add(
    "forest-without-a-seed",
    "A forest's score, trained without a seed",
    FOREST,
    random(
        """
        X_train, X_test, y_train, y_test = train_test_split(X, y)
        forest = RandomForestClassifier(n_estimators=20).fit(X_train, y_train)
        print(f"accuracy {forest.score(X_test, y_test):.4f}")
        """,
        "the split and the forest are drawn",
    ),
    "print(X_train.shape, sorted(set(y.tolist())))",
)

scores.add(
    "labels-shuffled",
    "The labels come out of order in the replay, and the score falls to chance",
    FOREST + "from labels import prepare\ny = prepare(y)",
    different_and_random(
        """
        X_train, X_test, y_train, y_test = train_test_split(X, y)
        forest = RandomForestClassifier(n_estimators=20).fit(X_train, y_train)
        print(f"accuracy {forest.score(X_test, y_test):.4f}")
        """,
        "about 0.8 in the record and always near 0.5 in the replay, far beyond what two runs differ by",
    ),
    files={"labels.py": "def prepare(y):\n    return y\n"},
    change=(("return y\n", "return y[::-1]\n"),),
)

scores.add(
    "worse-by-far",
    "A metric drops from 0.9 to 0.1 and varies a little from run to run",
    "import random\nfrom evaluation import quality",
    different_and_random(
        "print('f1', round(quality() + random.uniform(-0.01, 0.01), 4))", "0.9 in the record, 0.1 in the replay"
    ),
    random("print('jitter', round(random.uniform(-0.01, 0.01), 4))", "drawn without a seed"),
    files={"evaluation.py": "def quality():\n    return 0.91\n"},
    change=(("0.91", "0.12"),),
)

scores.pair(
    "forest-with-a-seed",
    "A seeded forest, trained on data from a file",
    """
    import numpy as np
    from sklearn.ensemble import RandomForestRegressor
    table = np.loadtxt("table.txt")
    forest = RandomForestRegressor(n_estimators=10, random_state=1).fit(table[:, :2], table[:, 2])
    """,
    different("forest.predict([[1.0, 2.0], [3.0, 1.0]])", "other training data"),
    different("forest.feature_importances_.round(3)", "other training data"),
    files={"table.txt": "1 2 3\n2 1 4\n3 3 5\n4 1 9\n5 2 8\n6 0 7\n"},
    change=(("3 3 5", "3 3 15"),),
)

scores.add(
    "metric-in-a-band",
    "A metric between 0.91 and 0.92, drawn anew by each run",
    "import random",
    random("print(f'auc={random.uniform(0.91, 0.92):.5f} on 1200 rows')", "drawn without a seed"),
    random("{'precision': round(random.uniform(0.88, 0.9), 5), 'n': 1200}", "drawn without a seed"),
)

unordered = Family("sets_and_dicts")

unordered.add(
    "set-of-strings",
    "Sets of strings, whose order differs from process to process",
    "{'kiwi', 'apple', 'plum', 'cherry', 'lemon', 'fig'} - {'fig'}",
    random("print({'kiwi', 'apple', 'plum', 'cherry', 'lemon', 'fig'})", "the order of a set"),
    random("print(list({'kiwi', 'apple', 'plum', 'cherry', 'lemon', 'fig'}))", "the order of a set"),
    "print(sorted({'kiwi', 'apple', 'plum', 'cherry', 'lemon', 'fig'}))",
)

unordered.pair(
    "member-of-a-set",
    "A set with another member",
    different(
        """
        tags = set(open("tags.txt").read().split())
        print(tags)
        """,
        "one tag changed; the order is noise",
    ),
    files={"tags.txt": "urgent billing refund export login mobile"},
    change=(("refund", "refuse"),),
    unchanged="the order of a set",
    is_random=True,
)

unordered.pair(
    "order-of-a-dict",
    "A dict in the order in which it was read",
    different(
        """
        menu = dict(line.strip().split("=") for line in open("menu.txt"))
        print(menu)
        """,
        "another order, and a dict keeps its own",
    ),
    files={"menu.txt": "soup=4\nsalad=6\nbread=2\n"},
    change=(("soup=4\nsalad=6", "salad=6\nsoup=4"),),
)

unordered.pair(
    "counted-words",
    "Counts of words",
    different(
        """
        from collections import Counter
        Counter(open("text.txt").read().split()).most_common(3)
        """,
        "one word more",
    ),
    files={"text.txt": "to be or not to be that is to say"},
    change=(("that is", "that not"),),
)

unordered.add(
    "directory-order",
    "Words joined from a set, and counted",
    "words = {word.strip('.,') for word in 'one ring to rule them all, one ring to find them.'.split()}",
    random("', '.join(words)", "the order of a set"),
    "len(words)",
    undecidable("next(iter(words))", "any member would do, and yet it is shown as a result"),
)

FAMILIES = (tables, drawn, scores, unordered)
