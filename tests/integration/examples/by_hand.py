"""The numbers of the flights example, computed again without NumPy or pandas: plain loops and Gaussian elimination."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FEATURES = (
    "intercept",
    "hours since 6:00",
    "wind, per 10 mph",
    "rain or snow (yes)",
    "miles of view lost",
    "low pressure, per 10 hPa",
    "June or July",
    "December",
)
WEATHER = ("temp", "wind_speed", "precip", "visib", "pressure")


@dataclass
class Numbers:
    """What the example must find."""

    scheduled: int
    cancelled: int
    mean_delay: float
    coefficients: dict[str, float]
    r_squared: float
    mean_error: float


def numbers(data: Path) -> Numbers:
    """Everything from the two files."""
    flights = list(rows(data / "flights-jfk-2013.csv.gz"))
    flown = [row for row in flights if row["dep_time"] != "NA"]
    training, unseen = _hours(flown, _weather(data))
    coefficients = solve(training)
    mean = sum(y for _, y in training) / len(training)
    errors = [y - sum(a * b for a, b in zip(x, coefficients, strict=True)) for x, y in unseen]
    around_mean = sum((y - mean) ** 2 for _, y in unseen)
    return Numbers(
        scheduled=len(flights),
        cancelled=len(flights) - len(flown),
        mean_delay=sum(float(row["dep_delay"]) for row in flown) / len(flown),
        coefficients=dict(zip(FEATURES, coefficients, strict=True)),
        r_squared=1 - sum(error**2 for error in errors) / around_mean,
        mean_error=sum(abs(error) for error in errors) / len(errors),
    )


def rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


def _weather(data: Path) -> dict[str, list[float]]:
    """The whole hours of weather, by hour; hours with a value missing are left out."""
    found: dict[str, list[str]] = {}
    for row in rows(data / "weather-jfk-2013.csv.gz"):
        found.setdefault(row["time_hour"], [row[name] for name in WEATHER])
    return {hour: [float(text) for text in texts] for hour, texts in found.items() if "NA" not in texts}


Samples = list[tuple[list[float], float]]


def _hours(flown: list[dict[str, str]], weather: dict[str, list[float]]) -> tuple[Samples, Samples]:
    """Features and mean delay of every hour with five departures or more: up to the 21st of each month, and after."""
    departures = defaultdict(list)
    for row in flown:
        departures[row["time_hour"]].append(row)
    training: Samples = []
    unseen: Samples = []
    for hour, each in departures.items():
        local, month, day = int(each[0]["hour"]), int(each[0]["month"]), int(each[0]["day"])
        if hour in weather and local >= 6 and len(each) >= 5:
            _, wind, precip, visib, pressure = weather[hour]
            season = [float(month in (6, 7)), float(month == 12)]
            features = [1.0, local - 6, wind / 10, float(precip > 0), 10 - visib, (1020 - pressure) / 10, *season]
            delay = sum(float(row["dep_delay"]) for row in each) / len(each)
            (training if day <= 21 else unseen).append((features, delay))
    return training, unseen


def solve(samples: Samples) -> list[float]:
    """Least squares by the normal equations."""
    width = len(samples[0][0])
    matrix = [
        [sum(x[i] * x[j] for x, _ in samples) for j in range(width)] + [sum(x[i] * y for x, y in samples)]
        for i in range(width)
    ]
    for i in range(width):
        pivot = max(range(i, width), key=lambda row: abs(matrix[row][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for row in range(width):
            if row != i:
                factor = matrix[row][i] / matrix[i][i]
                matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[i], strict=True)]
    return [matrix[i][width] / matrix[i][i] for i in range(width)]
