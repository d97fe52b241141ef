"""A line in tokens: words, numbers, and what is written in several of them, such as a time or a duration. Pure.

Each token has a kind, which never puts anything aside by itself: it tells what of a place that is known to vary may
stand there instead (see `evidence`), which times to hold against a run's clock, and what to call it in `why`.
No pattern looks at a character more than a few times, whatever the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from functools import cache
from itertools import product
from typing import Final, NamedTuple

import msgspec

DAY: Final = 86_400.0
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_WEEKDAY: Final = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?[ ]{1,2})?"
_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:[ ]?[AaPp][Mm]\b)?"
_ZONE: Final = r"(?:Z\b|[ ]?[+-]\d\d:?\d\d\b|[ ](?:UTC|GMT)\b)?"
_UNIT: Final = r"(?:[nuµμm]?s(?:ecs?)?|(?:(?:nano|micro|milli)?sec(?:ond)?s?)|min(?:ute)?s?|h(?:(?:ou)?rs?)?|days?)"
_AMOUNT: Final = r"\d[\d,]*+(?:\.\d++)?+(?:e[-+]?\d{1,3})?"
_SPAN: Final = rf"{_AMOUNT}[ ]?{_UNIT}(?![\w/])(?:[ ]\d{{1,6}}(?:\.\d{{1,6}})?[ ]?{_UNIT}(?![\w/])){{0,3}}"
_TOKEN: Final = rf"""
     (?P<gap>[ \t\u00a0]++)
    |(?P<source>/(?:tmp|var/folders/\w{{2}}/\w{{8,60}}/T)/ipykernel_\d{{1,9}}/\d{{1,12}}\.py
        |<ipython-input-\d{{1,9}}-[0-9a-f]{{1,40}}>)
    |(?P<duration>CPU[ ]times:[ ]user[ ][^\n]{{1,120}}|\[\d{{1,4}}:\d\d(?::\d\d)?<[^\]\[]{{0,60}}\]
        |{_SPAN}(?:[ ]±[ ]{_AMOUNT}[ ]?{_UNIT})?[ ]per[ ]loop[ ]\([^()\n]{{1,120}}\)
        |\d{{1,6}}s[ ]\d{{1,6}}[mu]?s/(?:step|epoch|sample|batch)\b)
    |(?<![\w.:-])(?P<time>\d{{4}}[-/]\d\d[-/]\d\d[T _]{_CLOCK}{_ZONE}(?![\w:])
        |{_WEEKDAY}{_MONTH}[ ]{{1,2}}\d{{1,2}},?[ ](?:\d{{4}}[ ])?(?:at[ ])?{_CLOCK}{_ZONE}(?:[ ](?:19|20)\d\d\b)?
        |{_WEEKDAY}\d{{1,2}}[ /-]{_MONTH}[ /-]\d{{4}}(?:,?[ ]|:){_CLOCK}{_ZONE}
        |(?:datetime\.)?datetime\(\d{{4}}(?:,[ ]\d{{1,6}}){{4,6}}(?:,[ ]tzinfo=[\w.]{{1,40}}(?:\([\w']{{0,40}}\))?)?\)
        |(?:19|20)\d{{6}}[T_-]\d{{4}}(?:\d\d)?Z?(?!\w)
        |\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}},?[ ]{_CLOCK}{_ZONE}(?![\w:])
        |{_CLOCK}{_ZONE}(?![\w:]))
    |(?<![\w.-])(?P<date>\d{{4}}[-/]\d\d[-/]\d\d(?![\w-])|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}(?![\w./-])
        |{_WEEKDAY}{_MONTH}[ ]{{1,2}}\d{{1,2}},?[ ]\d{{4}}\b
        |{_WEEKDAY}\d{{1,2}}[ -]{_MONTH}[ -]\d{{4}}\b|(?:datetime\.)?date\(\d{{4}},[ ]\d{{1,2}},[ ]\d{{1,2}}\))
    |(?<![\w.])(?P<rate>{_AMOUNT}[ ]?(?:[kKMGT]i?)?[A-Za-zµ]{{1,10}}
        /(?:s|sec|second|it|iter|step|epoch|sample|batch|row)\b)
    |(?<![\w.])(?P<elapsed>{_SPAN})
    |(?P<address>\b0x[0-9a-fA-F]++\b)
    |(?P<uuid>\b[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{12}}\b)
    |(?<![^\W_])(?P<number>(?:(?<![\w.)\]])[-+])?(?:\d{{1,3}}(?:,\d{{3}})++(?!\d)(?:\.\d++)?+|\d++(?:\.\d*+)?+|\.\d++)
        (?:[eE][-+]?\d{{1,4}})?(?!\w))
    |(?P<word>\w++)
    |(?P<mark>\u27e8[\d;:]*+\u27e9|(?P<repeated>.)(?P=repeated)*+)
    """


class Kind(StrEnum):
    """What a token is; its value is the word for it in `why`."""

    WORD = "word"
    MARK = "mark"
    NUMBER = "number"
    ADDRESS = "address"
    IDENTIFIER = "identifier"
    TIME = "time"
    DATE = "date"
    DURATION = "duration"
    RATE = "rate"
    SOURCE = "path"
    """The file that a kernel makes up for a cell: it names kernel and cell, and nothing of what was computed."""


_KINDS: Final = {
    **{kind.name.lower(): kind for kind in Kind},
    "elapsed": Kind.DURATION,
    "uuid": Kind.IDENTIFIER,
    "repeated": Kind.MARK,
}


class Token(NamedTuple):
    """`gap` are the blanks before it."""

    text: str
    kind: Kind
    gap: str = ""


class Clock(msgspec.Struct, frozen=True):
    """When a run began, and when the cell started and ended in it; seconds since 1970."""

    began: float
    started: float
    ended: float

    @classmethod
    def of(cls, began: str | None, started: str | None, ended: str | None) -> Clock | None:
        """From RFC 3339 times; None when it is not known when the cell ran."""
        try:
            times = [datetime.fromisoformat(each).timestamp() for each in (started, ended) if each]
            first = datetime.fromisoformat(began).timestamp() if began else times[0]
        except (ValueError, IndexError, OverflowError):
            return None
        return cls(min(first, times[0]), times[0], times[1]) if len(times) == 2 else None

    def covers(self, token: Token) -> bool:
        """Whether the token is a time of the cell's run or, where it has its date, of the whole run."""
        brief = self.ended - self.started <= _BRIEF
        return any(
            low <= self.ended + _SLACK and high >= (self.began if dated else self.started) - _SLACK
            for low, high, dated in _moments(token, self)
            if dated or brief
        )

    def is_today(self, token: Token) -> bool:
        """Whether the token has the date of a day on which the cell ran."""
        found = _fields(token.text)
        if found is None or ("b" not in found and "y" not in found):
            return False
        low = _seconds({name: value for name, value in found.items() if name in ("y", "m", "b", "d")}, self)
        return low is not None and low <= self.ended and low + DAY >= self.started


_BRIEF: Final = 600.0
"""Seconds up to which the run of a cell tells a time of day without a date from any other one."""
_SLACK: Final = 1.0
"""Seconds by which a time may miss the run: it is cut to its last digit, and the run's clock is another one."""


def tokens_of(line: str) -> tuple[Token, ...]:
    """The line in tokens; blanks at its end are none."""
    return tuple(_tokens(line))


@cache
def _token_pattern() -> re.Pattern[str]:
    """Compiled when it is first needed: that takes longer than most modules of the service take to import."""
    return re.compile(_TOKEN, re.VERBOSE | re.DOTALL)


def _tokens(line: str) -> Iterator[Token]:
    gap = ""
    for match in _token_pattern().finditer(line):
        name, text = match.lastgroup or "mark", match[0]
        if name == "gap":
            gap = text
            continue
        kind = _KINDS[name]
        if kind is Kind.WORD and looks_made_up(text):
            kind = Kind.IDENTIFIER
        yield Token(text, kind, gap)
        gap = ""


def looks_made_up(word: str) -> bool:
    """Whether a word has the form of an identifier that a program made: long, of digits and letters."""
    if len(word) < 6:
        return False
    return (not word.isalpha() and any(map(str.isdigit, word))) or (word.startswith("tmp") and len(word) == 11)


def has_same_time_of_day(one: Token, other: Token) -> bool:
    """Whether two times or dates differ in their dates alone."""
    found = [_fields(token.text) or {} for token in (one, other)]
    rest = [{name: value for name, value in each.items() if name not in ("y", "m", "b", "d")} for each in found]
    return rest[0] == rest[1]


def number(text: str) -> float | None:
    """A number as it is written."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


_DURATIONS: Final = re.compile(rf"(\d+):(\d\d)|({_AMOUNT})[ ]?([nuµμm]|milli|micro|nano)?(s|min|h|day)")
_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3_600.0, "day": DAY}
_PARTS: Final = {"n": 1e-9, "nano": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "micro": 1e-6, "m": 1e-3, "milli": 1e-3}


def amount(token: Token) -> float | None:
    """How much a duration or a rate is: seconds, or the number before a rate's unit."""
    if token.kind is Kind.RATE:
        match = re.match(_AMOUNT, token.text)
        return number(match[0]) if match else None
    if token.kind is Kind.TIME:
        found = _fields(token.text)
        return None if found is None or "y" in found else _time_of_day(found)
    total = 0.0
    text = token.text[:200]
    if (per := text.rfind("/")) > 0 and text[0] != "[":  # of `1s 14ms/step` the first part is rounded to seconds
        text = text[text.rfind(" ", 0, per) + 1 :]
    for match in _DURATIONS.finditer(text):
        if match[1]:
            total += int(match[1]) * 60 + int(match[2])
        else:
            total += (number(match[3]) or 0.0) * _PARTS.get(match[4] or "", 1.0) * _SECONDS[match[5]]
    return total


_AT: Final = r"(?P<H>\d{1,2}):(?P<M>\d\d)(?::(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?)?(?:[ ]?(?P<half>[AaPp])[Mm])?"
_WHERE: Final = r"(?:[ ]?(?P<z>Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_NAMED: Final = rf"(?P<b>{_MONTH})"
_FORMS: Final = (
    rf"(?P<y>\d{{4}})[-/](?P<m>\d\d)[-/](?P<d>\d\d)(?:[T _]{_AT}{_WHERE})?",
    rf"(?P<d>\d{{1,2}})[./](?P<m>\d{{1,2}})[./](?P<y>\d{{4}})(?:,? {_AT}{_WHERE})?",
    rf"{_WEEKDAY}{_NAMED} +(?P<d>\d{{1,2}}),?(?: +(?P<y>\d{{4}}))? +(?:at )?{_AT}{_WHERE}(?: (?P<y2>\d{{4}}))?",
    rf"{_WEEKDAY}{_NAMED} +(?P<d>\d{{1,2}}),? +(?P<y>\d{{4}})",
    rf"{_WEEKDAY}(?P<d>\d{{1,2}})[ /-]{_NAMED}[ /-](?P<y>\d{{4}})(?:(?:,? |:){_AT}{_WHERE})?",
    r"(?:datetime\.)?date(?:time)?\((?P<y>\d{4}), (?P<m>\d{1,2}), (?P<d>\d{1,2})"
    r"(?:, (?P<H>\d{1,2}), (?P<M>\d{1,2})(?:, (?P<S>\d{1,2})(?:, (?P<us>\d{1,6}))?)?)?(?:, tzinfo=(?P<tz>.*))?\)",
    r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)[T_-](?P<H>\d\d)(?P<M>\d\d)(?P<S>\d\d)?(?P<z>Z)?",
    rf"{_AT}{_WHERE}",
)


@cache
def _forms() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(form) for form in _FORMS)


def _fields(text: str) -> dict[str, str] | None:
    """A time's or date's fields by their letters in strftime; `f`, `us` fractions, `half` a or p, `z` the zone."""
    match = next((found for form in _forms() if (found := form.fullmatch(text))), None)
    if match is None:
        return None
    fields: dict[str, str] = {name: value for name, value in match.groupdict().items() if value is not None}
    if "y2" in fields:
        fields["y"] = fields.pop("y2")
    return fields


def _moments(token: Token, clock: Clock) -> Iterator[tuple[float, float, bool]]:
    """The stretches of time that a token may mean: from, to, and whether it has its date."""
    if token.kind is Kind.NUMBER:
        whole, _, fraction = token.text.partition(".")
        if whole.isdigit() and len(whole) in (10, 13, 16, 19):
            unit = 10.0 ** (10 - len(whole))
            yield float(token.text) * unit, float(token.text) * unit + unit * 10.0 ** -len(fraction), True
        return
    found = _fields(token.text) if token.kind is Kind.TIME else None
    if found is None:
        return
    lasts = 60.0 if "S" not in found else 10.0 ** -len(found["f"]) if "f" in found else 1.0
    dated = "b" in found or "y" in found
    days = (0,) if dated else range(-1, int((clock.ended - clock.started) // DAY) + 2)
    orders = [found, {**found, "d": found["m"], "m": found["d"]}] if "/" in token.text and "m" in found else [found]
    for day, fields in product(days, orders):  # 4/5/2026 is in May or in April
        low = _seconds(fields, clock, day)
        if low is not None:
            yield low, low + lasts, dated


def _seconds(found: dict[str, str], clock: Clock, day: int = 0) -> float | None:
    """Since 1970. What has no zone is UTC, as the clocks of sandboxes are; without a year it is that of the clock."""
    start = datetime.fromtimestamp(clock.started, UTC)
    try:
        month = _MONTHS.index(found["b"][:3].lower()) + 1 if "b" in found else int(found.get("m", start.month))
        on = datetime(int(found.get("y", start.year)), month, int(found.get("d", start.day)), tzinfo=_read_zone(found))
        return on.timestamp() + _time_of_day(found) + day * DAY
    except (ValueError, OverflowError):
        return None


def _time_of_day(found: dict[str, str]) -> float:
    hour = int(found.get("H", 0))
    if "half" in found:
        hour = hour % 12 + (12 if found["half"] in "pP" else 0)
    fraction = float(f"0.{found['f']}") if "f" in found else int(found.get("us", 0)) / 1e6
    return hour * 3_600 + int(found.get("M", 0)) * 60 + int(found.get("S", 0)) + fraction


def _read_zone(found: dict[str, str]) -> timezone:
    zone = found.get("z", "Z")
    if zone[0] not in "+-":
        return UTC
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return timezone(offset if zone[0] == "+" else -offset)
