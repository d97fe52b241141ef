"""Clock times, dates, durations: those of the run, and those that are data."""

from tests.replay_histories.writing import Family, different, same, undecidable

NOW = "now, by the run's own clock"
MEASURED = "a duration that the run measured"

clock = Family("clock_times_and_dates")

clock.add(
    "report-made-now",
    "A report with the time at which it was made",
    same("from datetime import datetime\nprint(f'Report made {datetime.now():%Y-%m-%d %H:%M:%S}')", NOW),
    same("datetime.now().isoformat()", NOW),
    same("print(datetime.now())\nprint(datetime.now().strftime('%d %b %Y, %H:%M:%S'))", NOW),
    same("import time\nprint(time.ctime())\nprint(time.strftime('%H:%M:%S'))", NOW),
)

clock.add(
    "now-of-pandas",
    "The time of the run as pandas shows it, alone and in a table",
    same("import pandas as pd\npd.Timestamp.now()", NOW),
    same("pd.DataFrame({'task': ['load', 'clean'], 'finished_at': [pd.Timestamp.now()] * 2})", NOW),
)

clock.pair(
    "first-train",
    "The timetable changes",
    different(
        """
        import json
        timetable = json.load(open("trains.json"))
        print("first train", timetable["first"])
        """,
        "the first train leaves in the afternoon",
    ),
    files={"trains.json": '{"first": "05:42:10", "last": "23:58:00"}'},
    change=(("05:42:10", "17:09:55"),),
)

clock.pair(
    "departures-in-a-table",
    "A departure in a table moves by a minute",
    different(
        """
        import pandas as pd
        departures = pd.read_csv("departures.csv")
        departures
        """,
        "the second train leaves a minute later",
    ),
    files={"departures.csv": "line,departure\nRE1,06:12:00\nRE7,06:41:00\nS3,06:55:00\n"},
    change=(("06:41:00", "06:42:00"),),
)

clock.pair(
    "opening-hours",
    "Hours and minutes without seconds",
    different(
        """
        for line in open("hours.txt"):
            print(line.strip())
        """,
        "it closes earlier on Fridays",
    ),
    files={"hours.txt": "Mon-Thu 09:00-18:30\nFri     09:00-16:00\n"},
    change=(("16:00", "14:00"),),
)

clock.pair(
    "sunrise-beside-now",
    "A fixed time beside the time of the run, in one line",
    different(
        """
        from datetime import datetime
        sunrise = open("sunrise.txt").read().strip()
        print(f"[{datetime.now():%H:%M:%S}] sunrise at {sunrise}")
        """,
        "the sunrise changed; the time in brackets is that of the run",
    ),
    files={"sunrise.txt": "07:31:12"},
    change=(("07:31:12", "07:32:47"),),
    unchanged=NOW,
)

clock.pair(
    "log-with-times",
    "A log by the logging module: each line has the time of the run, one count is data",
    "import logging, sys\n"
    "logging.basicConfig(stream=sys.stdout, format='%(asctime)s %(levelname)s %(message)s', level=logging.INFO)",
    different(
        """
        log = logging.getLogger("load")
        rows = open("rows.txt").read().split()
        log.info("reading rows.txt")
        log.info("%d rows, %d empty", len(rows), rows.count("-"))
        """,
        "one row more is empty",
    ),
    files={"rows.txt": "1 2 - 4 5 - 7"},
    change=(("4 5", "- 5"),),
    unchanged=NOW,
)

clock.pair(
    "data-as-of",
    "The day that the data is of",
    different(
        """
        import json
        stand = json.load(open("stand.json"))
        print("data as of", stand["as_of"])
        """,
        "the data is a day younger",
    ),
    files={"stand.json": '{"as_of": "2024-03-01"}'},
    change=(("2024-03-01", "2024-03-02"),),
)

clock.pair(
    "timestamps-in-a-table",
    "A column of timestamps, one of them a minute later",
    different(
        """
        import pandas as pd
        visits = pd.read_csv("visits.csv", parse_dates=["at"])
        visits
        """,
        "the second visit was a minute later",
    ),
    different("print(visits['at'].max() - visits['at'].iloc[1])", "and so the difference is another one"),
    files={"visits.csv": "who,at\nA,2023-06-01 08:00:00\nB,2023-06-01 08:15:00\nC,2023-06-02 19:30:00\n"},
    change=(("08:15:00", "08:16:00"),),
)

clock.pair(
    "time-zone",
    "The same local time with another offset",
    different("print(open('start.txt').read().strip())", "another moment"),
    files={"start.txt": "2024-10-27T02:30:00+02:00"},
    change=(("+02:00", "+01:00"),),
)

clock.pair(
    "history-in-text",
    "Years in a sentence",
    different(
        """
        from IPython.display import Markdown
        Markdown(open("about.md").read())
        """,
        "the year of foundation changed",
    ),
    files={"about.md": "The works opened on **14 May 1871** and closed on **2 June 1923**.\n"},
    change=(("1871", "1877"),),
)

clock.pair(
    "created-in-json",
    "JSON with the time it was made and a value",
    different(
        """
        import json
        from datetime import datetime, timezone
        limits = json.load(open("limits.json"))
        print(json.dumps({"created_at": datetime.now(timezone.utc).isoformat(), "limit": limits["limit"]}, indent=1))
        """,
        "the limit changed beside the time of the run",
    ),
    files={"limits.json": '{"limit": 250}'},
    change=(("250", "205"),),
    unchanged=NOW,
)

clock.add(
    "days-since",
    "Days from a fixed date to the day of the run",
    undecidable(
        "from datetime import date\nprint((date.today() - date(2024, 1, 1)).days, 'days since the start')",
        "it follows the clock, but as a plain number that both replays agree on",
    ),
    "print('start was', date(2024, 1, 1))",
)

clock.add(
    "dates-that-stay",
    "Dates that are computed from fixed ones",
    "import pandas as pd\npd.date_range('2024-01-29', periods=4, freq='D')",
    "print([str(day.date()) for day in pd.bdate_range('2024-03-28', periods=5)])",
    "pd.Series(range(3), index=pd.to_datetime(['2024-05-01', '2024-06-01', '2024-07-01']))",
)

clock.pair(
    "business-days",
    "A library counts another holiday",
    "from holidays_de import is_holiday\nimport datetime as dt",
    different(
        "[str(d) for d in (dt.date(2024, 5, 1) + dt.timedelta(n) for n in range(32)) if is_holiday(d)]",
        "one holiday more",
    ),
    files={
        "holidays_de.py": """
        DAYS = {(5, 1), (5, 9), (5, 20)}

        def is_holiday(day):
            return (day.month, day.day) in DAYS
        """
    },
    change=(("(5, 20)}", "(5, 20), (5, 30)}"),),
)

clock.pair(
    "appointment-on-the-day-of-the-run",
    "An appointment today at a fixed time",
    different(
        """
        from datetime import date
        at = open("at.txt").read().strip()
        print("next appointment:", date.today(), at)
        """,
        "the hour of the appointment is data, only the day is that of the run",
    ),
    files={"at.txt": "14:30"},
    change=(("14:30", "08:15"),),
    unchanged="the day of the run",
)

durations = Family("durations")

durations.add(
    "cell-magic-time",
    "%%time and %time above results",
    same("%%time\ntotal = sum(i * i for i in range(200_000))\nprint(total)", MEASURED),
    same("%time sorted(range(100_000), reverse=True)[0]", MEASURED),
)

durations.add("timeit", "A loop of %timeit", same("%timeit -n 200 -r 3 sum(range(500))", MEASURED))

durations.pair(
    "took-as-measurement",
    "A measured duration beside a result",
    different(
        """
        import time
        started = time.perf_counter()
        numbers = [int(line) for line in open("numbers.txt")]
        total = sum(n * n for n in numbers for _ in range(20_000))
        print(f"took {time.perf_counter() - started:.4f} s, total {total}")
        """,
        "the total changed, the duration is measured",
    ),
    files={"numbers.txt": "3\n4\n5\n"},
    change=(("5\n", "6\n"),),
    unchanged=MEASURED,
)

durations.pair(
    "took-as-data",
    "A duration that was read from a log of earlier runs",
    different(
        """
        for line in open("runs.log"):
            name, seconds = line.split()
            print(f"{name} took {seconds} s")
        """,
        "the second job took longer according to the file",
    ),
    files={"runs.log": "import 12.0\nexport 34.5\n"},
    change=(("34.5", "87.1"),),
)

durations.pair(
    "latency-column",
    "Latencies in a table",
    different(
        """
        import pandas as pd
        latency = pd.read_csv("latency.csv")
        latency
        """,
        "one latency changed",
    ),
    files={"latency.csv": "route,median,p99\n/login,12.5 ms,345.0 ms\n/search,48.0 ms,812.0 ms\n"},
    change=(("345.0 ms", "412.0 ms"),),
)

durations.pair(
    "race-results",
    "Times of a race, below a minute and above",
    different(
        """
        results = [line.strip().split(",") for line in open("race.csv")]
        for place, (name, time) in enumerate(sorted(results, key=lambda r: r[1]), 1):
            print(place, name, time)
        """,
        "the winner was slower",
    ),
    files={"race.csv": "Brown,9.58s\nGay,9.71s\nPowell,9.84s\n"},
    change=(("9.58s", "9.69s"),),
)

durations.pair(
    "half-life",
    "A duration below a second that is a constant of nature",
    different(
        """
        import json
        isotope = json.load(open("isotope.json"))
        print(f"half-life of {isotope['name']}: {isotope['half_life_s']} s")
        """,
        "another half-life",
    ),
    files={"isotope.json": '{"name": "B-8", "half_life_s": 0.770}'},
    change=(("0.770", "0.838"),),
)

durations.pair(
    "timedelta-column",
    "A column of time differences",
    different(
        """
        import pandas as pd
        parking = pd.read_csv("parking.csv")
        parking["stay"] = pd.to_timedelta(parking["stay"])
        parking
        """,
        "one stay was longer",
    ),
    different("print(parking['stay'].sum())", "and so is the sum"),
    files={"parking.csv": "car,stay\nA,0 days 01:15:00\nB,0 days 00:42:30\nC,1 days 03:00:00\n"},
    change=(("00:42:30", "00:52:30"),),
)

durations.pair(
    "timedelta-series",
    "A series of time differences as text",
    different(
        """
        import pandas as pd
        waits = pd.to_timedelta([int(n) for n in open("waits.txt")], unit="s")
        pd.Series(waits)
        """,
        "the first wait was longer",
    ),
    files={"waits.txt": "95\n30\n3605\n"},
    change=(("95\n", "155\n"),),
)

durations.add(
    "elapsed",
    "Elapsed times in several forms, all measured",
    "from datetime import datetime\nimport time\nbegan, tick = datetime.now(), time.perf_counter()",
    same("len([n for n in range(150_000) if n % 7 == 0])\nprint('elapsed', datetime.now() - began)", MEASURED),
    same("print(f'elapsed: {(time.perf_counter() - tick) * 1000:.1f} ms')", MEASURED),
    same("print('done in', round(time.perf_counter() - tick, 3), 'seconds')", MEASURED),
)

durations.pair(
    "fit-and-score",
    "A model's score beside the time its fit took",
    """
    import time
    import numpy as np
    from sklearn.linear_model import LinearRegression
    X = np.loadtxt("points.txt")
    """,
    different(
        """
        started = time.perf_counter()
        model = LinearRegression().fit(X[:, :1], X[:, 1])
        print(f"fit in {time.perf_counter() - started:.5f}s - R2 {model.score(X[:, :1], X[:, 1]):.4f}")
        """,
        "R2 changed",
    ),
    files={"points.txt": "1 2.1\n2 3.9\n3 6.2\n4 7.8\n"},
    change=(("3 6.2", "3 5.2"),),
    unchanged=MEASURED,
)

durations.pair(
    "timings-table",
    "Measured milliseconds in a table beside fixed sizes",
    different(
        """
        import time
        import pandas as pd
        rows = []
        for size in map(int, open("sizes.txt")):
            started = time.perf_counter()
            sorted(range(size), key=lambda n: -n)
            rows.append({"size": size, "ms": round((time.perf_counter() - started) * 1000, 3)})
        pd.DataFrame(rows)
        """,
        "another size was measured",
    ),
    files={"sizes.txt": "1000\n20000\n"},
    change=(("20000", "30000"),),
    unchanged=MEASURED,
    is_random=True,
)

durations.pair(
    "film-lengths",
    "Minutes and hours",
    different(
        """
        films = [line.strip().split(": ") for line in open("films.txt")]
        {title: length for title, length in films}
        """,
        "another length",
    ),
    files={"films.txt": "Nosferatu: 1h 34min\nMetropolis: 2h 33min\n"},
    change=(("2h 33min", "2h 28min"),),
)

durations.pair(
    "tqdm-over-items",
    "A progress bar of tqdm: its rate is measured, its total is data",
    "from tqdm import tqdm\nitems = open('items.txt').read().split()",
    different(
        """
        import time
        for item in tqdm(items, desc="items"):
            time.sleep(0.003)
        print(len(items), "done")
        """,
        "one item more",
    ),
    files={"items.txt": "a b c d e f g"},
    change=(("f g", "f g h"),),
    unchanged="the bar's rate and time are measured",
)

FAMILIES = (clock, durations)
