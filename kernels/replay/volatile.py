"""What changes from run to run and means nothing: addresses, times, durations, paths, counters. Pure.

Three passes over a line, by what a thing begins with: a number, a slash, a word. None looks at a character more than a
few times, whatever the line. A date is "now" only when it is near the time of its own run, if that is known: dates in
data count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_CLOCK: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:[ ]?[AP]M\b)?"
_ZONE: Final = r"(?:Z\b|[ ]?[+-]\d{2}:?\d{2}\b|[ ](?:UTC|GMT|CES?T|[ECMP][SD]T)\b)?"
_NUMBERED: Final = re.compile(
    rf"""(?<![^\W_])(?<!\.)(?P<number>\d++)(?:
     (?P<address>x[0-9a-fA-F]++\b)
    |(?P<iso>[-/](?P<month>\d\d)[-/](?P<day>\d\d)(?:[T ]{_CLOCK}{_ZONE})?(?![\w-]))
    |(?P<clock>:\d\d:\d\d(?:[.,]\d{{1,9}})?(?![\w:]))
    |(?P<written>[ -](?P<named>{_MONTH})[ -](?P<year>\d{{4}})(?:,?[ ]{_CLOCK}{_ZONE})?(?!\w))
    |(?P<loops>(?:,\d{{3}}){{0,5}}[ ]loops?\b)
    |(?P<compact>(?<=\d{{8}})[T_-]\d{{4,6}}Z?(?!\w))
    |(?P<long>(?<=\d{{10}})(?:\.\d++)?(?![\w.]))
    |(?P<duration>(?:\.\d++)?(?:e[-+]\d{{1,3}})?[ ]?(?=[nuµμmsih])(?:
        (?P<small>[nuµμm]s|(?:nano|micro|milli)seconds?|[mu]secs?|it/s|s/it)
        |s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?)\b)
    )""",
    re.VERBOSE,
)
_WORDED: Final = re.compile(
    rf"""
     (?P<count><ipython-input-\d{{1,9}}-[0-9a-f]{{1,40}}>|\bIn[ ]?\[\d{{1,9}}\]|\bOut[ ]?\[\d{{1,9}}\])
    |(?P<progress>\[\d{{1,4}}:\d{{2}}(?::\d{{2}})?<[^\]\[]{{0,60}}\])
    |(?<![\w.-])(?P<written>(?=[A-Z])(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},?[ ]{{1,2}})?(?P<named>{_MONTH})
        [ ]{{1,2}}(?P<day>\d{{1,2}})(?:,?[ ]{_CLOCK}{_ZONE})?,?[ ](?P<year>\d{{4}})(?!\w))
    |(?<![\w.-])(?P<weekday>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},?[ ](?=\d{{1,4}}[ /-]))
    |(?P<made>\bdate(?:time)?\((?P<y>\d{{4}}),[ ](?P<m>\d{{1,2}}),[ ](?P<d>\d{{1,2}})(?:,[ ][^,()]{{1,40}}){{0,5}}\))
    |(?P<elapsed>(?<![A-Za-z])(?=[tedrRTEDwWTx])(?:[Tt]ook|[Ee]lapsed|[Dd]uration|[Rr]un[ ]?time
        |(?:[Ww]all|[Ee]xecution|[Tt]raining)[ ]time|[Tt]ime[ ]taken)\b(?:[ ]time)?[ :=(]{{1,5}})
        \d++\.\d++(?:e[-+]\d{{1,3}})?(?:[ ]?(?:[nuµμm]?s|secs?|seconds?|min|minutes?|h|hours?)\b)?
    |(?P<process>\b(?:pid|PID|parent)[ ]?[=:]?[ ]?)\d{{1,9}}\b
    |\bat[ ](?P<address>0x[0-9a-fA-F]{{1,16}})\b
    """,
    re.VERBOSE,
)
_PLACED: Final = re.compile(
    r"""/(?<![\w:./<~-]/)(?:
     (?P<temporary>(?:private/)?(?:var/folders|tmp|var/tmp)(?:/[\w.@+~=%-]++)++/?)
    |(?P<path>(?=[A-Za-z_.])(?:[\w.@+~=%-]++/)*+[\w.@+~=%-]*+)
    )""",
    re.VERBOSE,
)
_DRIVE: Final = re.compile(r"""\b[A-Za-z]:\\(?P<path>(?:[^\\\s:"'<>|]++\\)*+[^\\\s:"'<>|]*+)""")
_MAYBE: Final = re.compile(r"[\d/\\]")
_TIMED: Final = re.compile(
    r"\b(?:time[ds]?|took|taken|elapsed|wall|user|sys|total|duration|runtime|finished|done|completed|in)\b",
    re.IGNORECASE,
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_IDENTIFIERS: Final = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|(?<![0-9a-zA-Z.])[a-z_]{0,12}[0-9a-f]{8,40}\b"
)


@dataclass(frozen=True)
class Moments:
    """The days on which the two runs began, as ordinals; None when either is unknown."""

    recorded: int | None = None
    replayed: int | None = None

    @classmethod
    def of(cls, recorded_at: str | None, replayed_at: str | None) -> Moments:
        """From RFC 3339 times; both or none."""
        days = [_day(text) for text in (recorded_at, replayed_at)]
        return cls(*days) if None not in days else cls()


def masked(line: str, day: int | None, *, dates: bool = True) -> str:
    """The line with a word in place of whatever is volatile. `dates`: whether those of an unknown time count as now."""
    if _MAYBE.search(line) is None:
        return line
    line = _WORDED.sub(lambda match: _word(match, day, dates=dates), line)
    timed: bool | None = None

    def replace(match: re.Match[str]) -> str:
        nonlocal timed
        if match["duration"] is None or match["small"]:
            return _number(match, day, dates=dates)
        if timed is None:
            timed = _TIMED.search(line) is not None
        return "<duration>" if timed else match[0]

    line = _NUMBERED.sub(replace, line)
    if "/" in line:
        line = _PLACED.sub(_place, line)
    return _DRIVE.sub(_place, line) if ":\\" in line else line


def without_identifiers(line: str) -> str:
    """A line of markup, script or JSON with a word in place of identifiers made up for each run."""
    return _IDENTIFIERS.sub("<id>", line)


def _word(match: re.Match[str], day: int | None, *, dates: bool) -> str:
    kind = match.lastgroup or ""
    if kind == "address":
        return "at <address>"
    if kind in ("elapsed", "process"):
        return f"{match[kind]}<{'duration' if kind == 'elapsed' else kind}>"
    if kind == "written":
        return _date(match, (match["year"], match["named"], match["day"]), day, dates=dates)
    if kind == "made":
        return _date(match, (match["y"], match["m"], match["d"]), day, dates=dates)
    return f"<{kind}>"


def _number(match: re.Match[str], day: int | None, *, dates: bool) -> str:
    kind, number = match.lastgroup or "", match["number"]
    if kind == "iso":
        return _date(match, (number, match["month"], match["day"]), day, dates=dates)
    if kind == "written":
        return _date(match, (match["year"], match["named"], number), day, dates=dates)
    if kind == "compact":
        return _date(match, (number[:4], number[4:6], number[6:8]), day, dates=dates and len(number) == 8)
    if kind == "long":
        return _long(match, number, day, dates=dates)
    whole = kind != "clock" or len(number) <= 2
    if kind == "address":
        whole = number == "0" and 9 <= len(match[kind]) <= 17
    return f"<{kind}>" if whole else match[0]


def _long(match: re.Match[str], number: str, day: int | None, *, dates: bool) -> str:
    """A number of ten digits and more: an object's identity, seconds or milliseconds since 1970, or just a number."""
    fraction = "." in match[0]
    if not fraction and (
        (len(number) == 15 and "12" <= number[:2] <= "14") or (len(number) == 14 and "93" <= number[:2] <= "94")
    ):
        return "<identity>"
    known = day is not None or fraction
    if known and "15" <= number[:2] <= "19" and (len(number) == 10 or (len(number) == 13 and not fraction)):
        return "<time>" if _is_now(_EPOCH_DAY + int(number[:10]) // 86_400, day, dates=dates) else match[0]
    return match[0]


def _place(match: re.Match[str]) -> str:
    """A path is where it lies and a name; a directory's name says no more than where."""
    if match.lastgroup == "temporary":
        return "<temporary>"
    name = match[0].replace("\\", "/").rpartition("/")[2]
    return f"<path>/{name}" if "." in name.strip(".") else "<path>"


def _date(match: re.Match[str], parts: tuple[str, str, str], day: int | None, *, dates: bool) -> str:
    year, month, in_month = parts
    try:
        in_year = int(month) if month.isdigit() else _MONTHS.index(month[:3].lower()) + 1
        ordinal = date(int(year), in_year, int(in_month)).toordinal() if len(year) == 4 else None
    except ValueError:
        ordinal = None
    return "<time>" if ordinal is not None and _is_now(ordinal, day, dates=dates) else match[0]


def _is_now(ordinal: int, day: int | None, *, dates: bool) -> bool:
    """Whether a date may be that of the run; a day off is another time zone, or a run past midnight."""
    return dates if day is None else abs(ordinal - day) <= 1


def _day(text: str | None) -> int | None:
    try:
        return date.fromisoformat(text[:10]).toordinal() if text else None
    except ValueError:
        return None
