"""What a long run shows while it runs, and its last line: `--progress`, which the verbs of the Makefile give.

On a terminal one line is kept up to date; elsewhere (CI) a line is printed every ten seconds. It has the folder of the
test that ended last, how many have ended, and about how much time is left. Failures are named as they happen. The last
line of the output counts what passed, failed and was skipped. Without the option, and with `-v`, pytest shows its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import pytest

EVERY_SECONDS = 10.0
"""Between two lines where there is no terminal."""

_UPDATE_SECONDS = 0.1
_CACHE = "sandcell/seconds_of_modules"
_QUICK = ("tests/unit/", "tests/rules/")
_SECONDS_OF_QUICK, _SECONDS_OF_OTHER = 0.02, 0.5
_TRUST_SECONDS = 60.0
"""Work after which the pace of this run counts as much as the one that was expected."""

_RARE = {"error": "with errors around them", "xfailed": "failed as expected", "xpassed": "passed unexpectedly"}

Measured = dict[str, tuple[int, float]]
"""By module: how many of its tests ran, and how many seconds they took together."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--progress", action="store_true", help="show counts and the time left, and end with one line")


def register(config: pytest.Config) -> None:
    """Take over the display of a run that asks for it; not in xdist's workers, which display nothing."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    wanted = config.getoption("--progress") and not config.option.collectonly and config.option.verbose <= 0
    if wanted and reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config, reporter), "sandcell-progress")


class Estimate:
    """How long the tests that have not ended will take, from what tests of their modules took before."""

    def __init__(self, modules: Iterable[str], measured: Mapping[str, tuple[int, float]], workers: int) -> None:
        self._workers = max(workers, 1)
        self._each = {module: _seconds_of_one(module, measured) for module in set(modules)}
        self._left = sum(self._each[module] for module in modules)
        self._done = 0.0

    def finish(self, module: str) -> None:
        """Count one test of the module as ended."""
        self._done += self._each.get(module, 0.0)
        self._left -= self._each.get(module, 0.0)

    def seconds_left(self, elapsed_seconds: float) -> float:
        """By the pace so far; at first by the workers alone, which share the work evenly."""
        pace = (elapsed_seconds + _TRUST_SECONDS / self._workers) / (self._done + _TRUST_SECONDS)
        return max(self._left, 0.0) * pace


def _seconds_of_one(module: str, measured: Mapping[str, tuple[int, float]]) -> float:
    tests, seconds = measured.get(module, (0, 0.0))
    if tests:
        return seconds / tests
    return _SECONDS_OF_QUICK if module.startswith(_QUICK) else _SECONDS_OF_OTHER


def describe_progress(folder: str, done: int, total: int, failed: int, seconds_left: float) -> str:
    """The line that a run shows while it runs."""
    parts = [folder, f"{done:,} of {total:,}", f"{100 * done // max(total, 1)} %"]
    if failed:
        parts.append(f"{failed:,} failed")
    parts.append(f"about {max(round(seconds_left / 60), 1)} min left")
    return "  ".join(parts)


def describe_end(counts: Mapping[str, int], seconds: float, exit_status: int, seed: str | None) -> str:
    """The last line of a run: what became of its tests, and which of the matrices it drew."""
    parts = [f"{counts.get(name, 0):,} {name}" for name in ("passed", "failed", "skipped")]
    parts += [f"{counts[name]:,} {word}" for name, word in _RARE.items() if counts.get(name)]
    line = f"{', '.join(parts)} in {seconds:,.0f} s"
    if exit_status and not counts.get("failed") and not counts.get("error"):
        line += f", and yet the run did not pass (exit status {exit_status}): see above"
    return f"{line}; {f'sample drawn by seed {seed}' if seed else 'every case of the matrices'}"


class Progress:
    """The plugin: counts what ends, and writes through pytest's own reporter."""

    def __init__(self, config: pytest.Config, reporter: pytest.TerminalReporter) -> None:
        self._config = config
        self._reporter = reporter
        self._session: pytest.Session | None = None
        self._began = self._tests_began = self._shown_at = time.monotonic()
        self._running = True
        self._on_line = False
        self._total = self._done = 0
        self._measured: dict[str, list[float]] = {}
        self._estimate = Estimate((), {}, 1)
        reporter.showfspath = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._begin([item.nodeid for item in session.items], workers=1)

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Each worker has collected the same tests, one that replaces a dead worker too."""
        if not self._total:
            self._begin(ids, workers=self._config.getoption("numprocesses") or 1)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Iterator[None]:
        """Show no letter for a test that ends; the summaries that follow ask for its word again."""
        category, letter, word = yield
        return (category, "", "") if self._running else (category, letter, word)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._measured.setdefault(_module(report.nodeid), [0, 0.0])[1] += report.duration
        if report.failed:
            what = f"error in its {report.when}" if report.when in ("setup", "teardown") else "failed"
            self._say(f"{what}: {report.nodeid}{_reason(report)}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        module = _module(nodeid)
        self._done += 1
        self._measured.setdefault(module, [0, 0.0])[0] += 1
        self._estimate.finish(module)
        self._show(module.rpartition("/")[0] or ".")

    def pytest_sessionfinish(self) -> None:
        self._running = False
        self._clear()
        cache = getattr(self._config, "cache", None)
        if cache is not None:
            cache.set(_CACHE, {**cache.get(_CACHE, {}), **self._measured})

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """The last line, when everything else has been said."""
        if self._session is not None:
            counts = {category: len(reports) for category, reports in self._reporter.stats.items()}
            status, seed = int(self._session.exitstatus), config.getoption("--sample")
            self._reporter.write_line(describe_end(counts, time.monotonic() - self._began, status, seed))

    def _begin(self, nodeids: list[str], workers: int) -> None:
        cache = getattr(self._config, "cache", None)
        measured: Measured = cache.get(_CACHE, {}) if cache is not None else {}
        self._total, self._tests_began = len(nodeids), time.monotonic()
        self._estimate = Estimate([_module(nodeid) for nodeid in nodeids], measured, workers)

    def _show(self, folder: str) -> None:
        now = time.monotonic()
        if now - self._shown_at < (_UPDATE_SECONDS if self._reporter.isatty() else EVERY_SECONDS):
            return
        self._shown_at = now
        failed = sum(len(self._reporter.stats.get(category, ())) for category in ("failed", "error"))
        left = self._estimate.seconds_left(now - self._tests_began)
        line = describe_progress(folder, self._done, self._total, failed, left)
        if self._reporter.isatty():
            self._reporter.rewrite(line[: self._config.get_terminal_writer().fullwidth - 1], erase=True)
            self._reporter.flush()
            self._on_line = True
        else:
            self._say(line)

    def _say(self, line: str) -> None:
        self._clear()
        self._reporter.write_line(line)
        self._reporter.flush()

    def _clear(self) -> None:
        """Free the terminal's line for something that stays."""
        if self._on_line:
            self._reporter.rewrite("", erase=True)
            self._reporter.write("\r")
            self._on_line = False


def _module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _reason(report: pytest.TestReport) -> str:
    """The first line of what went wrong, as far as it fits on a line."""
    message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
    first = message.strip().partition("\n")[0]
    return f": {first[:200]}" if first else ""
