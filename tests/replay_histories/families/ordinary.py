# ruff: noqa: E501 - a cell a line is easier to read than cells in blocks
"""Ordinary sessions of analysis in which nothing changed: every cell is `same`.

They show how often a verdict accuses without cause.
"""

from tests.replay_histories.writing import Family, random, same

NOW = "now, by the run's own clock"
MEASURED = "a duration that the run measured"
ordinary = Family("ordinary_sessions")

PANDAS = "import numpy as np\nimport pandas as pd\nrng = np.random.default_rng(7)"
PLOT = "import numpy as np\nimport matplotlib.pyplot as plt\nplt.rcParams['figure.dpi'] = 40\nplt.rcParams['figure.figsize'] = (3, 2)"

ordinary.add(
    "shop-orders",
    "Revenue by month",
    PANDAS
    + "\norders = pd.DataFrame({'day': pd.date_range('2023-01-05', periods=60, freq='3D'), 'eur': rng.gamma(2, 40, 60).round(2)})",
    "orders.head()",
    "orders.set_index('day').resample('MS')['eur'].agg(['sum', 'count']).round(2)",
    "print(f\"best day: {orders.loc[orders['eur'].idxmax(), 'day']:%d %b}\")",
)
ordinary.add(
    "weather",
    "Temperatures and a rolling mean",
    PANDAS
    + "\ntemps = pd.Series(10 + 8 * np.sin(np.arange(90) / 14) + rng.normal(0, 2, 90), pd.date_range('2024-03-01', periods=90))",
    "temps.describe().round(2)",
    "temps.rolling(7).mean().dropna().round(1).iloc[::15]",
    "temps.idxmax(), float(temps.max().round(2))",
)
ordinary.add(
    "iris",
    "A classifier on iris, seeded",
    "from sklearn.datasets import load_iris\nfrom sklearn.model_selection import cross_val_score\nfrom sklearn.tree import DecisionTreeClassifier\niris = load_iris(as_frame=True)",
    "iris.frame.groupby('target').mean().round(3)",
    "scores = cross_val_score(DecisionTreeClassifier(random_state=0), iris.data, iris.target, cv=5)\nprint(scores, scores.mean().round(4))",
)
ordinary.add(
    "wine-pca",
    "Two components of the wine data",
    "from sklearn.datasets import load_wine\nfrom sklearn.decomposition import PCA\nfrom sklearn.preprocessing import StandardScaler\nwine = load_wine()",
    "pca = PCA(2).fit(StandardScaler().fit_transform(wine.data))\npca.explained_variance_ratio_",
    "print('kept', f'{pca.explained_variance_ratio_.sum():.1%}')",
    "PCA(n_components=3)",
)
ordinary.add(
    "clusters",
    "k-means with a seed",
    PANDAS
    + "\nfrom sklearn.cluster import KMeans\npoints = np.concatenate([rng.normal(c, 0.4, (30, 2)) for c in (0, 3, 6)])",
    "model = KMeans(3, n_init=5, random_state=1).fit(points)\nnp.sort(model.cluster_centers_.round(3), axis=0)",
    "pd.Series(model.labels_).value_counts().sort_values().tolist()",
)
ordinary.add(
    "linear-fit",
    "A line through points, and its plot",
    PLOT + "\nx = np.linspace(0, 10, 30)\ny = 2.5 * x + 1 + np.random.default_rng(3).normal(size=30)",
    "slope, intercept = np.polyfit(x, y, 1)\nprint(f'slope {slope:.3f}, intercept {intercept:.3f}')",
    "plt.scatter(x, y, s=8)\nplt.plot(x, slope * x + intercept, 'r-')\nplt.title('fit')\nplt.show()",
)
ordinary.add(
    "histogram",
    "A histogram, and its figures",
    PLOT + "\nsample = np.random.default_rng(11).normal(50, 12, 500)",
    "counts, edges, _ = plt.hist(sample, bins=12)\nplt.show()",
    "counts.astype(int), edges[:3].round(2)",
)
ordinary.add(
    "figure-result",
    "A plot whose last line is a result, so that its representation is shown",
    PLOT,
    same("plt.plot([1, 4, 2])", "a list of lines, with an address in its name"),
    same("fig, ax = plt.subplots()\nax.bar(['a', 'b'], [3, 5])\nax", "an axes object"),
    "ax.get_xlim()",
)
ordinary.add(
    "subplots",
    "Four small plots",
    PLOT,
    "fig, axes = plt.subplots(2, 2)\nfor k, ax in enumerate(axes.flat, 1):\n    ax.plot(np.sin(k * np.linspace(0, 6, 80)))\n    ax.set_title(f'k={k}', fontsize=6)\nplt.tight_layout()\nplt.show()",
)
ordinary.add(
    "pie-and-table",
    "A share in a pie and as a table",
    PLOT + "\nimport pandas as pd\nshare = pd.Series({'rent': 900, 'food': 450, 'other': 320})",
    "share.plot.pie(autopct='%.0f%%', ylabel='')\nplt.show()",
    "(share / share.sum()).round(3).to_frame('share')",
)
ordinary.add(
    "join",
    "Two tables joined",
    PANDAS
    + "\npeople = pd.DataFrame({'id': [1, 2, 3], 'name': ['Ada', 'Bo', 'Cy']})\npaid = pd.DataFrame({'id': [1, 1, 3, 4], 'eur': [10, 5, 7.5, 2]})",
    "people.merge(paid, how='left')",
    "people.merge(paid, how='outer', indicator=True)['_merge'].value_counts()",
    "paid.groupby('id').eur.sum()",
)
ordinary.add(
    "pivot",
    "A pivot table with margins",
    PANDAS
    + "\nt = pd.DataFrame({'shop': list('AABBAB'), 'kind': ['x', 'y', 'x', 'y', 'x', 'x'], 'n': [3, 1, 4, 1, 5, 9]})",
    "t.pivot_table(index='shop', columns='kind', values='n', aggfunc='sum', margins=True)",
    "pd.crosstab(t.shop, t.kind)",
    "t.melt(id_vars='shop', value_vars='n').head(3)",
)
ordinary.add(
    "missing-values",
    "Gaps, filled",
    PANDAS + "\ns = pd.DataFrame({'a': [1, None, 3, None], 'b': ['x', None, 'z', 'w']})",
    "s.isna().sum()",
    "s.fillna({'a': s.a.mean(), 'b': '?'})",
    "s.dropna().info(memory_usage=False)",
)
ordinary.add(
    "text-statistics",
    "Words of a text",
    "text = '''It was the best of times, it was the worst of times, it was the age of wisdom'''\nimport re\nfrom collections import Counter\nwords = re.findall(r'[a-z]+', text.lower())",
    "Counter(words).most_common(4)",
    "print(len(words), 'words,', len(set(words)), 'different')",
    "max(words, key=len)",
)
ordinary.add(
    "primes",
    "Prime numbers",
    "def primes(limit):\n    sieve = bytearray([1]) * limit\n    sieve[:2] = b'\\0\\0'\n    for n in range(2, int(limit ** .5) + 1):\n        if sieve[n]:\n            sieve[n * n::n] = bytes(len(range(n * n, limit, n)))\n    return [n for n in range(limit) if sieve[n]]",
    "primes(60)",
    "len(primes(100_000)), primes(100_000)[-1]",
)
ordinary.add(
    "matrix",
    "Linear algebra",
    "import numpy as np\nA = np.array([[4., 1, 0], [1, 3, 1], [0, 1, 2]])",
    "np.linalg.eigvalsh(A)",
    "np.linalg.solve(A, [1, 2, 3])",
    "print(np.linalg.det(A), np.linalg.cond(A))",
)
ordinary.add(
    "integration",
    "Numerical integration",
    "import numpy as np\nfrom scipy import integrate, optimize",
    "integrate.quad(lambda x: np.exp(-x ** 2), 0, np.inf)",
    "optimize.brentq(lambda x: x ** 3 - 2, 0, 2)",
    "optimize.minimize(lambda v: (v[0] - 1) ** 2 + (v[1] + 2) ** 2, [0, 0])",
)
ordinary.add(
    "t-test",
    "Two groups compared",
    PANDAS + "\nfrom scipy import stats\na, b = rng.normal(5, 1, 40), rng.normal(5.6, 1, 40)",
    "stats.ttest_ind(a, b)",
    "print('means', a.mean().round(3), b.mean().round(3))",
    "stats.mannwhitneyu(a, b).pvalue",
)
ordinary.add(
    "correlations",
    "A matrix of correlations, styled and plain",
    PANDAS + "\nd = pd.DataFrame(rng.normal(size=(50, 3)), columns=list('xyz'))\nd['w'] = d.x * 2 + d.y",
    "d.corr().round(3)",
    same(
        "d.corr().style.background_gradient(cmap='Blues').format('{:.2f}')",
        "the style's identifiers are drawn at random",
    ),
    "d.corr().w.drop('w').idxmax()",
)
ordinary.add(
    "heat-map",
    "A heat map of a matrix",
    PLOT + "\nm = np.random.default_rng(5).random((6, 6))",
    "plt.imshow(m, cmap='magma')\nplt.colorbar()\nplt.show()",
    "m.round(2)",
)
ordinary.add(
    "time-series-plot",
    "A year of values",
    PLOT
    + "\nimport pandas as pd\ns = pd.Series(np.random.default_rng(2).normal(size=120).cumsum(), pd.date_range('2022-01-01', periods=120))",
    "s.plot()\nplt.show()",
    "s.resample('ME').last().round(3)",
    "s.autocorr(7)",
)
ordinary.add(
    "logging",
    "A session that logs with times",
    "import logging, sys\nlogging.basicConfig(stream=sys.stdout, level=logging.INFO, format='%(asctime)s %(name)s %(levelname)s: %(message)s')\nlog = logging.getLogger('etl')",
    same("log.info('read %d rows', 1200)\nlog.warning('%d rows dropped', 3)", NOW),
    "1200 - 3",
    same("from datetime import datetime\nlog.info('done at %s', datetime.now().strftime('%H:%M'))", NOW),
)
ordinary.add(
    "timed-steps",
    "Steps that say how long they took",
    "import time\n\ndef step(name, work):\n    began = time.perf_counter()\n    result = work()\n    print(f'{name}: {time.perf_counter() - began:.4f}s')\n    return result",
    same("n = step('count', lambda: sum(1 for i in range(300_000) if i % 3))", MEASURED),
    "n",
    same("squares = step('square', lambda: [i * i for i in range(100_000)])\nprint(len(squares), 'squares')", MEASURED),
)
ordinary.add(
    "progress",
    "A loop under tqdm",
    "from tqdm import tqdm\nimport time",
    same("total = 0\nfor n in tqdm(range(50)):\n    total += n\n    time.sleep(0.0005)", MEASURED),
    "total",
)
ordinary.add(
    "magics",
    "Timing magics in the course of work",
    "import numpy as np\na = np.arange(10_000)",
    same("%timeit -n 50 -r 2 a.sum()", MEASURED),
    same("%%time\nb = np.sort(-a)\nb[:3]", MEASURED),
    "a.dtype, a.shape",
)
ordinary.add(
    "json-work",
    "A tree of JSON",
    'import json\nconfig = json.loads(\'{"db": {"host": "localhost", "port": 5432}, "debug": false, "ids": [1001, 1002]}\')',
    "config",
    "print(json.dumps(config, indent=2, sort_keys=True))",
    "config['db'] | {'port': 5433}",
)
ordinary.add(
    "csv-by-hand",
    "A file written and read again",
    "import csv\nwith open('out.csv', 'w', newline='') as f:\n    w = csv.writer(f)\n    w.writerow(['n', 'square'])\n    w.writerows((n, n * n) for n in range(5))",
    "print(open('out.csv').read())",
    same("!ls -l out.csv", "the file is as old as the run"),
    "!wc -c out.csv",
)
ordinary.add(
    "sqlite",
    "A small database",
    "import sqlite3\ndb = sqlite3.connect(':memory:')\ndb.executescript(\"create table t (k text, v int); insert into t values ('a', 1), ('b', 2), ('a', 5);\")\nNone",
    "db.execute('select k, sum(v) from t group by k order by k').fetchall()",
    same("db", "an address"),
    "db.total_changes",
)
ordinary.add(
    "classes",
    "Classes and objects, without representations of their own",
    "class Account:\n    def __init__(self, owner, cents=0):\n        self.owner, self.cents = owner, cents\n\n    def pay(self, cents):\n        self.cents += cents\n        return self",
    same("Account('Ada').pay(500)", "an address"),
    "print(Account('Ada', 100).pay(50).cents)",
    same("[Account('A'), Account('B')]", "addresses"),
)
ordinary.add(
    "dataclasses",
    "Dataclasses and sorting",
    "from dataclasses import dataclass\n\n@dataclass(order=True)\nclass City:\n    people: int\n    name: str\n\ncities = [City(841_600, 'Turin'), City(68_456, 'Aalen'), City(15_387_639, 'Lagos')]",
    "sorted(cities)",
    "max(cities).name",
    "print(*(f'{c.name:<8}{c.people:>12,}' for c in cities), sep='\\n')",
)
ordinary.add(
    "generators",
    "Functions and generators shown as they are",
    "def fib():\n    a, b = 0, 1\n    while True:\n        yield a\n        a, b = b, a + b",
    same("fib", "an address"),
    same("fib()", "an address"),
    "from itertools import islice\nlist(islice(fib(), 15))",
)
ordinary.add(
    "dates",
    "Dates of a project",
    "import datetime as dt\nstart, end = dt.date(2024, 2, 12), dt.date(2024, 9, 30)",
    "end - start",
    "print(f'{(end - start).days // 7} weeks, from {start:%A} to {end:%A}')",
    "[str(start + dt.timedelta(weeks=8 * n)) for n in range(5)]",
)
ordinary.add(
    "report-header",
    "A report with the time of the run in its head",
    same(
        "from datetime import datetime\nprint('Weekly report')\nprint('generated', datetime.now().strftime('%Y-%m-%d %H:%M:%S'))",
        NOW,
    ),
    "visits = {'mon': 120, 'tue': 98, 'wed': 143}\nvisits",
    "print('total', sum(visits.values()), 'mean', round(sum(visits.values()) / 3, 2))",
    same(
        "from IPython.display import Markdown\nMarkdown(f'*as of {datetime.now():%d.%m.%Y %H:%M}*: **{sum(visits.values())}** visits')",
        NOW,
    ),
)
ordinary.add(
    "regression-summary",
    "A regression with its coefficients as a table",
    PANDAS
    + "\nfrom sklearn.linear_model import LinearRegression, Ridge\nX = pd.DataFrame(rng.normal(size=(80, 3)), columns=['age', 'size', 'rooms'])\ny = X @ [1.5, -2, 0.7] + rng.normal(0, 0.1, 80)",
    "model = LinearRegression().fit(X, y)\npd.DataFrame({'coef': model.coef_}, index=X.columns).round(3)",
    "print(f'R2 = {model.score(X, y):.5f}')",
    "Ridge(alpha=0.5)",
)
ordinary.add(
    "pipeline",
    "A pipeline shown as scikit-learn's diagram",
    "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import LogisticRegression",
    "print(make_pipeline(StandardScaler(), LogisticRegression(C=0.3)))",
    "make_pipeline(StandardScaler(), LogisticRegression())[-1].get_params()['C']",
)
ordinary.add(
    "confusion-matrix",
    "A confusion matrix and a report",
    "from sklearn.datasets import load_digits\nfrom sklearn.linear_model import LogisticRegression\nfrom sklearn.metrics import classification_report, confusion_matrix\nX, y = load_digits(n_class=4, return_X_y=True)\nmodel = LogisticRegression(max_iter=300).fit(X[:400], y[:400])",
    "confusion_matrix(y[400:], model.predict(X[400:]))",
    "print(classification_report(y[400:], model.predict(X[400:]), digits=3))",
)
ordinary.add(
    "grid-search",
    "A grid search, with the times it measured",
    PANDAS
    + "\nfrom sklearn.model_selection import GridSearchCV\nfrom sklearn.neighbors import KNeighborsClassifier\nfrom sklearn.datasets import load_iris\nX, y = load_iris(return_X_y=True)\nsearch = GridSearchCV(KNeighborsClassifier(), {'n_neighbors': [1, 5, 9]}, cv=3).fit(X, y)",
    "search.best_params_, round(search.best_score_, 4)",
    random(
        "pd.DataFrame(search.cv_results_)[['param_n_neighbors', 'mean_fit_time', 'mean_test_score']]",
        "fit times are measured",
    ),
)
ordinary.add(
    "warnings-of-work",
    "Warnings in the course of work",
    "import numpy as np\nimport warnings",
    same("np.array([1.0, 0.0]) / np.array([0.0, 0.0])", "the path of the cell's code in the warning"),
    same(
        "warnings.warn('the column is deprecated', DeprecationWarning)\n'went on'",
        "the path of the cell's code in the warning",
    ),
    "np.float32(1e10).item()",
)
ordinary.add(
    "an-error-on-the-way",
    "An error, and going on after it",
    "d = {'a': 1}",
    "d['b']",
    "d['b'] = 2\nd",
    "sum(d.values())",
)
ordinary.add(
    "strings",
    "Formatting and Unicode",
    "name = 'Zoë'\nprint(f'{name!r:>10}|{3.14159:8.3f}|{255:#x}|{1e6:,.0f}')",
    "name.encode('utf-8')",
    "print('Grüße, 世界 ✓')",
    "'-'.join(reversed('abc'))",
)
ordinary.add(
    "simulated-walk",
    "A random walk with a seed",
    PLOT + "\nwalk = np.random.default_rng(99).choice([-1, 1], 400).cumsum()",
    "walk.min(), walk.max(), walk[-1]",
    "plt.plot(walk)\nplt.axhline(0, color='grey')\nplt.show()",
)
ordinary.add(
    "monte-carlo",
    "Pi by chance, without a seed",
    "import random",
    random(
        "inside = sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(20_000))\nprint('pi is about', 4 * inside / 20_000)",
        "drawn without a seed",
    ),
    "import math\nmath.pi",
)
ordinary.add(
    "html-report",
    "A table made by hand as HTML",
    "from IPython.display import HTML\nrows = [('bolt', 40, 'ok'), ('nut', 3, 'low')]",
    "HTML('<table>' + ''.join(f'<tr><td>{n}</td><td>{k}</td><td class={s}>{s}</td></tr>' for n, k, s in rows) + '</table>')",
    "sum(k for _, k, _ in rows)",
)
ordinary.add(
    "altair-chart",
    "A chart of Altair",
    PANDAS + "\nimport altair as alt\nd = pd.DataFrame({'x': range(5), 'y': [3, 1, 4, 1, 5]})",
    same("alt.Chart(d).mark_bar().encode(x='x:O', y='y')", "an identifier that the library makes up for each run"),
    "alt.Chart(d).mark_line().encode(x='x', y='y').to_dict()['mark']",
)
ordinary.add(
    "plotly-chart",
    "A figure of Plotly",
    "import plotly.graph_objects as go\nimport plotly.io as pio\npio.templates.default = 'none'\npio.renderers.default = 'plotly_mimetype'",
    "go.Figure(go.Bar(x=['a', 'b'], y=[2, 5]), layout_title_text='Counts')",
    "go.Scatter(y=[1, 2]).to_plotly_json()",
)
ordinary.add(
    "svg-plot",
    "A plot as SVG",
    "import matplotlib.pyplot as plt\n%config InlineBackend.figure_formats = ['svg']",
    same(
        "plt.figure(figsize=(1.5, 1))\nplt.fill_between([0, 1, 2], [1, 3, 2])\nplt.axis('off')\nplt.show()",
        "made-up identifiers and the date in the SVG",
    ),
)
ordinary.add(
    "shell-work",
    "Files by shell lines",
    "!mkdir -p out && printf 'a\\nb\\nc\\n' > out/list.txt",
    "files = !ls out\nfiles",
    "!sort -r out/list.txt | head -2",
    same("!stat -c '%n %s %y' out/list.txt", "the file is as old as the run"),
    "%%bash\nfor n in 1 2 3; do echo line $n; done",
)
ordinary.add(
    "bits-and-bytes",
    "Binary data",
    "import struct, base64, zlib\nblob = struct.pack('<IHd', 70_000, 513, 2.5)",
    "blob",
    "print(base64.b64encode(blob).decode(), hex(zlib.crc32(blob)))",
    "struct.unpack('<IHd', blob)",
)
ordinary.add(
    "game-of-life",
    "A grid of letters",
    "import numpy as np\ngrid = np.zeros((6, 6), int)\ngrid[1, 2] = grid[2, 3] = grid[3, 1] = grid[3, 2] = grid[3, 3] = 1",
    "def show(g):\n    print('\\n'.join(''.join('#' if c else '.' for c in row) for row in g))\n\nshow(grid)",
    "near = sum(np.roll(grid, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - grid\ngrid = (near == 3) | (grid & (near == 2))\nshow(grid)",
)
ordinary.add(
    "recursion",
    "Puzzles",
    "def hanoi(n, a='A', b='B', c='C'):\n    return hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c) if n else []",
    "hanoi(3)",
    "[len(hanoi(n)) for n in range(8)]",
)
ordinary.add(
    "threads-pool",
    "Work in threads, results in order",
    "from concurrent.futures import ThreadPoolExecutor\nimport time",
    "with ThreadPoolExecutor(4) as pool:\n    results = list(pool.map(lambda n: n ** 3, range(8)))\nresults",
    same("import threading\nthreading.current_thread()", "an identity of a thread"),
    "threading.active_count() > 0",
)
ordinary.add(
    "asyncio",
    "Coroutines awaited in cells",
    "import asyncio\n\nasync def double(n):\n    await asyncio.sleep(0.001)\n    return 2 * n",
    "await double(21)",
    "await asyncio.gather(*(double(n) for n in range(4)))",
    same("coroutine = double(1)\nprint(coroutine)\nawait coroutine", "an address"),
)
ordinary.add(
    "url-parts",
    "URLs taken apart",
    "from urllib.parse import urlsplit, parse_qs\nparts = urlsplit('https://shop.example.org:8443/item/17?ref=mail&n=2#top')",
    "parts",
    "parse_qs(parts.query), parts.port",
)
ordinary.add(
    "paths",
    "Paths of the session and a temporary one",
    "from pathlib import Path\nimport tempfile\nhere = Path('notes')\nhere.mkdir(exist_ok=True)\n(here / 'a.txt').write_text('hello')",
    "sorted(str(p) for p in here.rglob('*'))",
    same("with tempfile.NamedTemporaryFile(suffix='.bin') as f:\n    print(f.name)", "a temporary path"),
    "Path('x/y.tar.gz').suffixes",
)
ordinary.add(
    "environment",
    "What the session runs on",
    "import sys, os\nprint(sys.version_info[:2])",
    same("print('kernel process', os.getpid())", "a process id"),
    random("import platform\nplatform.node()", "each sandbox has a name of its own"),
    "os.path.basename(os.getcwd())",
)
ordinary.add(
    "categories",
    "Categories and bins",
    PANDAS + "\nages = pd.Series(rng.integers(5, 90, 40))",
    "pd.cut(ages, [0, 18, 40, 65, 100]).value_counts(sort=False)",
    "pd.qcut(ages, 4, labels=False).tolist()[:10]",
    "ages.astype('category').cat.categories[:5]",
)
ordinary.add(
    "multi-index",
    "A table with two levels",
    PANDAS
    + "\nidx = pd.MultiIndex.from_product([['n', 's'], [2022, 2023]], names=['side', 'year'])\nf = pd.DataFrame({'t': rng.normal(20, 3, 4).round(1)}, idx)",
    "f",
    "f.unstack('year')",
    "f.loc['s'].t.mean()",
)
ordinary.add(
    "wide-table",
    "A table too wide and too long to be shown whole",
    PANDAS + "\nw = pd.DataFrame(rng.integers(0, 99, (70, 12)), columns=[f'c{n}' for n in range(12)])",
    "print(w)",
    "w.sum().sort_values().head(3)",
)
ordinary.add(
    "money",
    "Exact decimals and fractions",
    "from decimal import Decimal, getcontext\nfrom fractions import Fraction",
    "sum([Decimal('0.10')] * 3), 0.1 + 0.1 + 0.1",
    "Fraction(3, 7) + Fraction(2, 5)",
    "getcontext().prec = 40\nDecimal(2).sqrt()",
)
ordinary.add(
    "fourier",
    "A spectrum",
    PLOT + "\nt = np.arange(256) / 256\nsignal = np.sin(2 * np.pi * 12 * t) + 0.5 * np.sin(2 * np.pi * 40 * t)",
    "spectrum = np.abs(np.fft.rfft(signal))\nnp.argsort(spectrum)[-2:]",
    "plt.plot(spectrum)\nplt.show()",
    "np.fft.irfft(np.fft.rfft(signal)).round(6)[:4]",
)
ordinary.add(
    "box-plot",
    "A box plot of groups",
    PLOT + "\ngroups = [np.random.default_rng(k).normal(k, 1, 40) for k in range(3)]",
    "plt.boxplot(groups)\nplt.show()",
    "[round(float(np.median(g)), 3) for g in groups]",
)
ordinary.add(
    "named-tuples",
    "Records and enumerations",
    "from collections import namedtuple\nfrom enum import Enum\nPoint = namedtuple('Point', 'x y')\nclass Colour(Enum):\n    RED = 1\n    BLUE = 2",
    "Point(1, 2)._replace(y=5)",
    "list(Colour)",
)
ordinary.add(
    "estimates",
    "Intervals by bootstrap, with a seed",
    PANDAS + "\nsample = rng.exponential(3, 60)",
    "means = [rng.choice(sample, 60).mean() for _ in range(500)]\nnp.quantile(means, [.025, .5, .975]).round(4)",
    "print(f'mean {sample.mean():.3f} ± {np.std(means):.3f}')",
)
ordinary.add(
    "help",
    "Help and representations of what is installed",
    "import math\nprint(math.hypot.__doc__.splitlines()[0])",
    "math.hypot",
    same("import json\njson.JSONEncoder().default", "an address"),
    "len(dir(math)) > 40",
)
ordinary.add(
    "caches",
    "A cached function and how often it was called",
    "from functools import lru_cache\n\n@lru_cache\ndef steps(n):\n    return 0 if n == 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)",
    "max(range(1, 2000), key=steps)",
    "steps.cache_info()",
    same("steps", "an address"),
)

FAMILIES = (ordinary,)
