"""What is more than text: JSON, Vega-Lite, Plotly, SVG, HTML, PNG; then pictures made of letters, and long text."""

from tests.replay_histories.writing import Family, different, random, same, undecidable

MADE_UP = "identifiers that the library makes up for each run"

json_display = Family("json_displays")

json_display.pair(
    "value",
    "A value deep in a JSON display",
    different(
        "import json\nfrom IPython.display import JSON\nJSON(json.load(open('tree.json')))", "a long integer changed"
    ),
    files={"tree.json": '{"node": {"id": 730045120001834, "tags": ["x", "y"], "open": true}}'},
    change=(("730045120001834", "730045120001835"),),
)

json_display.pair(
    "order-of-a-list",
    "Two elements of a list change places",
    different(
        "import json\nfrom IPython.display import JSON\nJSON(json.load(open('list.json')))", "lists have an order"
    ),
    files={"list.json": '{"ranking": ["Ada", "Bo", "Cy"]}'},
    change=(('"Ada", "Bo"', '"Bo", "Ada"'),),
)

json_display.add(
    "null-absent-reordered",
    "null that becomes false, a missing key, and keys in another order",
    different("import json\nfrom IPython.display import JSON\nJSON(json.load(open('a.json')))", "null became false"),
    different("JSON(json.load(open('b.json')))", "a key is gone"),
    undecidable("JSON(json.load(open('c.json')))", "the same object, its keys in another order"),
    files={"a.json": '{"done": null}', "b.json": '{"n": 1, "m": 2}', "c.json": '{"first": 1, "then": 2}'},
    change=(("null", "false"), ('"n": 1, "m": 2', '"n": 1'), ('"first": 1, "then": 2', '"then": 2, "first": 1')),
)

json_display.pair(
    "made-at",
    "A JSON display with the time of the run, a new UUID and a count",
    different(
        """
        import datetime, json, uuid
        from IPython.display import JSON
        count = json.load(open("count.json"))
        JSON({"run": str(uuid.uuid4()), "at": datetime.datetime.now().isoformat(), "count": count})
        """,
        "the count changed beside noise",
    ),
    files={"count.json": "41"},
    change=(("41", "42"),),
    unchanged="the time of the run and a random identifier",
    is_random=True,
)

CHART = """
import altair as alt
import pandas as pd
import json
data = pd.read_csv("data.csv")
look = json.load(open("look.json"))
"""
LOOK = '{"color": "teal", "title": "Yield", "size": 60}'
POINTS = "year,yield,batch\n2019,3.1,10000017\n2020,2.7,10000018\n2021,3.9,10000019\n"
DRAW = """
alt.Chart(data, title=look["title"]).mark_point(color=look["color"], size=look["size"]).encode(
    x="year:O", y="yield:Q", tooltip="batch:N")
"""
DRAW_AS_JSON = f"""
from IPython.display import display
chart = {DRAW.strip()}
display({{"application/vnd.vegalite.v5+json": chart.to_dict(), "text/plain": "alt.Chart(...)"}}, raw=True)
"""

vega = Family("vega")

vega.pair(
    "data",
    "One value of a chart",
    CHART,
    different(DRAW_AS_JSON, "the harvest of one year"),
    files={"data.csv": POINTS, "look.json": LOOK},
    change=(("2020,2.7", "2020,2.9"),),
)

vega.add(
    "look",
    "The colour of the marks",
    CHART,
    different(DRAW_AS_JSON, "another colour"),
    files={"data.csv": POINTS, "look.json": LOOK},
    change=(("teal", "crimson"),),
)

vega.add(
    "title",
    "The title of a chart that is an HTML page of its own",
    CHART,
    different(DRAW, "another title"),
    files={"data.csv": POINTS, "look.json": LOOK},
    change=(("Yield", "Yields"),),
)

vega.add(
    "long-numbers",
    "A number of eight digits in the data of a chart, shown by its tooltip",
    CHART,
    different(DRAW_AS_JSON, "another batch"),
    files={"data.csv": POINTS, "look.json": LOOK},
    change=(("10000018", "10000081"),),
)

vega.add(
    "page-unchanged",
    "A chart as an HTML page",
    CHART,
    same(DRAW, MADE_UP),
    files={"data.csv": POINTS, "look.json": LOOK},
)

FIGURE = """
import json
import plotly.graph_objects as go
import plotly.io as pio
pio.templates.default = "none"
pio.renderers.default = "plotly_mimetype"
spec = json.load(open("figure.json"))
"""
SPEC = (
    '{"x": [1, 2, 3], "y": [4.5, 2.5, 6.0], "color": "#1f77b4", "title": "Load", "ids": [90210001, 90210002, 90210003]}'
)
FIGURE_DRAW = """
go.Figure(
    go.Scatter(x=spec["x"], y=spec["y"], customdata=spec["ids"], marker_color=spec["color"]),
    go.Layout(title=spec["title"], width=300, height=200),
)
"""

plotly = Family("plotly")

plotly.pair(
    "moved-point",
    "One point of a figure",
    FIGURE,
    different(FIGURE_DRAW, "the second point"),
    files={"figure.json": SPEC},
    change=(("2.5", "2.6"),),
)
plotly.add(
    "colour",
    "The colour of a figure's points",
    FIGURE,
    different(FIGURE_DRAW, "another colour"),
    files={"figure.json": SPEC},
    change=(("#1f77b4", "#ff7f0e"),),
)
plotly.add(
    "title",
    "The title of a figure",
    FIGURE,
    different(FIGURE_DRAW, "another title"),
    files={"figure.json": SPEC},
    change=(('"Load"', '"Load [kW]"'),),
)
plotly.add(
    "long-numbers",
    "Numbers of eight digits beside the points",
    FIGURE,
    different(FIGURE_DRAW, "another id at one point"),
    files={"figure.json": SPEC},
    change=(("90210002", "90210020"),),
)

PAGE_DRAW = """
from IPython.display import HTML
figure = go.Figure(go.Bar(x=spec["x"], y=spec["y"]), go.Layout(title=spec["title"], width=300, height=200))
HTML(figure.to_html(include_plotlyjs="cdn", full_html=False))
"""
plotly.pair(
    "figure-as-html",
    "A figure as HTML with a script, in an element with a random identifier",
    FIGURE,
    different(PAGE_DRAW, "the height of a bar"),
    files={"figure.json": SPEC},
    change=(("6.0]", "6.5]"),),
    unchanged=MADE_UP,
)

svg = Family("svg")

DRAWING = """
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 200 100"
 width="200" height="100">
<defs><clipPath id="clip1"><rect x="0" y="0" width="200" height="100"/></clipPath></defs>
<g clip-path="url(#clip1)">
<a xlink:href="https://example.org/node/17"><circle cx="40" cy="50" r="8" fill="#3366cc"/></a>
<circle cx="120" cy="30" r="8" fill="#3366cc"/>
<line x1="48" y1="50" x2="112" y2="30" stroke="black" stroke-width="2"/>
<text x="40" y="75">No. 10000001</text>
</g>
</svg>
"""
SHOW = "from IPython.display import SVG\nSVG(filename='drawing.svg')"

for name, about, why, old, new in (
    ("moved-point", "A circle moves", "the second circle is elsewhere", 'cx="120" cy="30"', 'cx="126" cy="30"'),
    ("colour", "The colour of a circle", "another colour", 'r="8" fill="#3366cc"/></a>', 'r="8" fill="#cc3366"/></a>'),
    ("line-width", "The width of a line", "a thicker line", 'stroke-width="2"', 'stroke-width="5"'),
    ("link", "Where a circle leads to", "it leads to another node", "node/17", "node/18"),
    ("label", "A text", "another number in the label", "No. 10000001", "No. 10000010"),
    (
        "size",
        "The size of the drawing",
        "it is wider",
        'width="200" height="100">\n<defs',
        'width="260" height="100">\n<defs',
    ),
):
    svg.add(name, about, different(SHOW, why), files={"drawing.svg": DRAWING}, change=((old, new),))

svg.add("unchanged", "A drawing from a file", SHOW, files={"drawing.svg": DRAWING})

svg.add(
    "other-identifier",
    "A drawing whose clip path has another identifier, in both places",
    undecidable(SHOW, "nothing looks different, and the file is another one"),
    files={"drawing.svg": DRAWING},
    change=(("clip1", "clip7"),),
)

PLOT = """
%config InlineBackend.figure_formats = ['svg']
import matplotlib.pyplot as plt
import numpy as np
values = np.loadtxt("values.txt")
"""
SVG_PLOT = """
fig, ax = plt.subplots(figsize=(1.6, 1.1))
ax.plot(values, marker="o")
ax.set_xticks([]); ax.set_yticks([])
plt.show()
"""
svg.pair(
    "matplotlib",
    "A plot as SVG: identifiers and the date in it are those of the run",
    PLOT,
    different(SVG_PLOT, "one point is elsewhere"),
    files={"values.txt": "1\n3\n2\n4\n"},
    change=(("3\n", "3.2\n"),),
    unchanged=MADE_UP,
)

html = Family("html")

PAGE = """
<div>
<p>Ticket <a href="https://tracker.example.org/issue/17">17</a> is <span style="color: green">open</span>.</p>
<table><tr><th>part</th><th>left</th></tr><tr><td bgcolor="white">bolt</td><td>40</td></tr></table>
<div style="width: 63%; background: navy">&nbsp;</div>
<img src="https://img.example.org/a.png" alt="front view" width="120">
<abbr title="reviewed on Monday">r</abbr>
<script type="application/json">{"stock": 10000044, "site": "north"}</script>
</div>
"""
SHOW_PAGE = "from IPython.display import HTML\nHTML(open('page.html').read())"

for name, about, why, old, new in (
    ("link", "Where a link leads to", "it leads to another issue", "/issue/17", "/issue/71"),
    ("colour", "The colour of a word", "another colour", "color: green", "color: red"),
    ("table-cell", "A number in a table of HTML", "another count", "<td>40</td>", "<td>14</td>"),
    ("cell-colour", "The background of a table's cell", "another background", 'bgcolor="white"', 'bgcolor="orange"'),
    ("bar-width", "The width of a bar", "a longer bar", "width: 63%", "width: 86%"),
    ("image", "The source of an image", "another image", "/a.png", "/b.png"),
    ("image-width", "The width of an image", "a wider image", 'width="120"', 'width="180"'),
    ("alternative-text", "The text in place of an image", "another text", "front view", "rear view"),
    ("title", "The text that a pointer shows", "another day", "reviewed on Monday", "reviewed on Friday"),
    ("script-data", "Data in a script", "another stock", "10000044", "10000055"),
    ("text", "A word", "the ticket is closed", ">open<", ">closed<"),
):
    html.add(name, about, different(SHOW_PAGE, why), files={"page.html": PAGE}, change=((old, new),))

html.add("unchanged", "A page from a file", SHOW_PAGE, files={"page.html": PAGE})
html.add(
    "comment",
    "A comment in HTML",
    undecidable(SHOW_PAGE, "nobody sees a comment unless they look at the source"),
    files={"page.html": PAGE},
    change=(("<div>\n<p>", "<div><!-- by the new template -->\n<p>"),),
)
html.pair(
    "element-with-a-random-identifier",
    "A widget in an element whose identifier is drawn for each run",
    "import uuid\nfrom IPython.display import HTML\nname = 'w' + uuid.uuid4().hex",
    different(
        """
        level = open("level.txt").read().strip()
        script = f'document.getElementById("{name}").textContent += " {level}"'
        HTML(f'<div id="{name}">level</div><script>{script}</script>')
        """,
        "another level",
    ),
    files={"level.txt": "70321188"},
    change=(("70321188", "70321199"),),
    unchanged="a random identifier",
    is_random=True,
)

png = Family("png_plots")

SETUP = """
import json
import matplotlib.pyplot as plt
import numpy as np
plt.rcParams["figure.dpi"] = 50
spec = json.load(open("plot.json"))
"""
PLOT_SPEC = """
{"y": [1.0, 3.0, 2.0, 5.0, 4.0, 4.5], "label": "batch 7", "legend": "measured", "grey": 0.55, "bar": 12,
 "line": 1.5, "color": "tab:blue", "title": "Pressure", "cell": 0.4}
"""
LINES = """
fig, ax = plt.subplots(figsize=(3.6, 2.4))
ax.plot(spec["y"], marker="o", color=spec["color"], linewidth=spec["line"], label=spec["legend"])
ax.annotate(spec["label"], (3, 4.6), fontsize=7)
ax.legend(fontsize=7)
ax.set_title(spec["title"])
plt.show()
"""
BARS = """
fig, ax = plt.subplots(figsize=(3.6, 2.4))
ax.bar(["a", "b", "c"], [spec["bar"], 9, 15], color=str(spec["grey"]))
ax.set_ylim(0, 20)
plt.show()
"""
MAP = """
grid = np.linspace(0, 1, 64).reshape(8, 8)
grid[5, 2] = spec["cell"]
plt.figure(figsize=(2.4, 2.4))
plt.imshow(grid, cmap="viridis", vmin=0, vmax=1)
plt.axis("off")
plt.show()
"""

for name, about, why, drawing, old, new in (
    ("moved-point", "One point of a line", "the fourth point", LINES, "5.0", "4.8"),
    ("small-label", "A small label inside a plot", "another batch", LINES, "batch 7", "batch 1"),
    ("legend", "The legend", "another word in the legend", LINES, "measured", "modelled"),
    ("title", "The title", "another title", LINES, "Pressure", "Pressure (bar)"),
    ("colour", "The colour of a line", "another colour", LINES, "tab:blue", "tab:green"),
    ("line-width", "The width of a line", "a thicker line", LINES, '"line": 1.5', '"line": 2.5'),
    ("grey-step", "The grey of bars, a twentieth darker", "another grey", BARS, "0.55", "0.50"),
    ("bar-height", "The height of a bar", "a higher bar", BARS, '"bar": 12', '"bar": 12.4'),
    ("map-cell", "One cell of a map", "another value", MAP, '"cell": 0.4', '"cell": 0.55'),
):
    png.add(name, about, SETUP, different(drawing, why), files={"plot.json": PLOT_SPEC}, change=((old, new),))

for name, drawing in (("line", LINES), ("bars", BARS), ("map", MAP)):
    png.add(f"{name}-unchanged", "The same plot", SETUP, drawing, files={"plot.json": PLOT_SPEC})

png.add(
    "random-points",
    "A scatter plot of points that are drawn without a seed, and its size",
    random(
        "import numpy as np\nimport matplotlib.pyplot as plt\nplt.rcParams['figure.dpi'] = 40\n"
        "plt.figure(figsize=(3, 2))\nplt.scatter(*np.random.rand(2, 40))\nplt.show()",
        "drawn without a seed",
    ),
    "plt.rcParams['figure.dpi']",
)

png.add(
    "picture-from-pillow",
    "A picture that Pillow made, with one square of another colour",
    "import json\nfrom PIL import Image, ImageDraw\nbox = json.load(open('box.json'))",
    different(
        "picture = Image.new('RGB', (120, 80), 'white')\n"
        "ImageDraw.Draw(picture).rectangle(box['at'], fill=box['fill'])\npicture",
        "the square is elsewhere",
    ),
    "picture.size",
    files={"box.json": '{"at": [20, 20, 30, 30], "fill": "navy"}'},
    change=(("[20, 20, 30, 30]", "[23, 20, 33, 30]"),),
)

letters = Family("text_plots")

letters.pair(
    "histogram",
    "A histogram of letters",
    different(
        """
        from collections import Counter
        counts = Counter(open("dice.txt").read().split())
        for face in sorted(counts):
            print(face, "#" * counts[face])
        """,
        "a bar is longer",
    ),
    files={"dice.txt": "1 5 3 3 6 2 5 5 1 4 6 6 3 5"},
    change=(("5 1 4", "5 4 4"),),
)

letters.pair(
    "scatter",
    "A point in a field of letters, by blanks alone",
    different(
        """
        for column in map(int, open("columns.txt").read().split()):
            print(" " * column + "*")
        """,
        "a star moved to the right",
    ),
    files={"columns.txt": "1 4 9 16 9 4 1"},
    change=(("16", "15"),),
)

letters.pair(
    "indented-tree",
    "The depth of an entry",
    different("print(open('tree.txt').read())", "a file lies one level deeper"),
    files={"tree.txt": "project\n  src\n    main.py\n  notes.md\n"},
    change=(("  notes.md", "    notes.md"),),
)

letters.pair(
    "sparkline",
    "A line of block letters",
    different(
        """
        values = [int(n) for n in open("values.txt")]
        print("".join("▁▂▃▄▅▆▇█"[n] for n in values))
        """,
        "one block is higher",
    ),
    files={"values.txt": "0\n2\n5\n7\n4\n1\n"},
    change=(("5\n", "6\n"),),
)

letters.pair(
    "blank-lines",
    "A verse with a blank line between",
    different("print(open('verse.txt').read())", "the lines stand together"),
    files={"verse.txt": "One for the master\n\nOne for the dame\n"},
    change=(("\n\n", "\n"),),
)

long_text = Family("long_text")

LONG = """
import json
odd = json.load(open("odd.json"))
for n in range(30_000):
    print("sensor ok" if n != odd["at"] else odd["says"])
"""

long_text.pair(
    "changed-middle",
    "A line in the middle of 300 KB, in the part of which only a digest is kept",
    different(LONG, "one line in the middle is otherwise"),
    "print(len(odd))",
    files={"odd.json": '{"at": 15000, "says": "sensor 4: 17.1 V"}'},
    change=(("17.1", "71.1"),),
)

long_text.add(
    "changed-place",
    "The same lines, but the odd one stands elsewhere in the middle",
    different(LONG, "the odd line comes 700 lines later"),
    files={"odd.json": '{"at": 15000, "says": "sensor is"}'},
    change=(("15000", "15700"),),
)

long_text.add(
    "changed-end",
    "The last line of 300 KB",
    different(LONG, "the last line"),
    files={"odd.json": '{"at": 29999, "says": "sensor off"}'},
    change=(("sensor off", "sensor hot"),),
)

long_text.add(
    "one-line-more",
    "One line more in 300 KB of equal lines",
    different("for _ in range(int(open('n.txt').read())):\n    print('.' * 9)", "one line more"),
    files={"n.txt": "30000"},
    change=(("30000", "30001"),),
)

long_text.add(
    "long-and-unchanged",
    "400 KB on both streams",
    "import sys\nfor n in range(40_000):\n    print('tick tock', file=sys.stderr if n >= 36_000 else sys.stdout)",
    "len(repr(list(range(2000))))",
)

long_text.add(
    "address-in-the-middle",
    "An address in the middle of 300 KB: no digest can tell it from data",
    undecidable(
        "for n in range(30_000):\n    print('sensor ok' if n != 15_000 else f'sensor {object()}')",
        "noise for a reader of the whole text, but only the digest of it is on record",
    ),
)

FAMILIES = (json_display, vega, plotly, svg, html, png, letters, long_text)
