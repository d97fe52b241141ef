"""Fixtures that many tests share, and the check that a test run leaves nothing behind.

`environments_dir` and `environment`: the built environment `python` (`make test` builds it). `service`: one real
service for the whole run; `make_service` starts others, which end with the module. `moto_endpoint`: one S3 server for
the whole run.
"""

from __future__ import annotations

import gc
import os
import shutil
import ssl
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import hypothesis
import pytest
from httpx._transports import default
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from kernels.environment import Environment
from kernels.oci import environments
from tests import failure_report, leftovers, progress, sampling
from tests.running_service import RunningService
from tests.shared_guest import share_guest

if TYPE_CHECKING:
    from tests.postgresql_server import PostgresqlServer

REPOSITORY = Path(__file__).parent.parent
UNHURRIED = {"requests_per_second": 100_000, "failed_authentications_per_second": 100_000}
"""Tests ask faster than people, and fail to say who they are more often."""

# No test passes or fails by how long it takes: the machine may be busy with another.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("sample", hypothesis.settings.get_profile("untimed"), max_examples=20)
hypothesis.settings.load_profile("untimed")


def _read_certificates_once() -> None:
    """Have httpx read the certificates of all authorities for one client: for each it takes 20 ms, also without TLS."""
    create = httpx.create_ssl_context

    @cache
    def read(trust_env: bool, *_places: str | None) -> ssl.SSLContext:
        return create(trust_env=trust_env)

    def share(verify: Any = True, cert: Any = None, *, trust_env: bool = True) -> ssl.SSLContext:
        if verify is not True or cert is not None:
            return create(verify, cert, trust_env)
        return read(trust_env, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))

    default.create_ssl_context = share


_read_certificates_once()


def pytest_addoption(parser: pytest.Parser) -> None:
    sampling.add_option(parser)
    progress.add_option(parser)


@pytest.hookimpl(trylast=True)  # pytest's own display is there to be taken over
def pytest_configure(config: pytest.Config) -> None:
    progress.register(config)
    if config.getoption("--sample"):
        hypothesis.settings.load_profile("sample")  # before the modules of tests are imported, which read it


def pytest_report_header(config: pytest.Config) -> str:
    return sampling.header(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect with Python's garbage collector off, and have it pass over what is there by then: it stays.

    It would look through ten thousand tests and all that they import time and again, in each of the run's processes.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    sampling.mark_matrices(items)
    yield  # here pytest leaves out what `-m` and `-k` do not ask for: a sample is of the rest
    sampling.draw(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    failure_report.begin(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections[:] = [(title, failure_report.cut_lines(text)) for title, text in report.sections]
        report.sections.extend(failure_report.sections(item))
    return report


def pytest_sessionstart(session: pytest.Session) -> None:
    if not _one_of_several(session):
        os.environ[leftovers.MARK] = str(uuid.uuid4())
        leftovers.RUN_DIR.mkdir(exist_ok=True)
        leftovers.RUN_DIR.chmod(0o755)  # the first process would make it, perhaps with a mode for itself alone
        session.stash[leftovers.BEFORE] = leftovers.snapshot()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that leaves a container, mount, cgroup, loop device, network namespace or process."""
    if _one_of_several(session):
        return
    failure_report.keep(session.config)
    leftovers.forget_namespaces(session.stash[leftovers.BEFORE])
    ended = time.monotonic()
    left = leftovers.since(session.stash[leftovers.BEFORE])
    if getattr(session.config, "cache", None) is not None:
        session.config.cache.set("sandcell/left_behind", [str(each) for each in left])  # for scripts/retest
    if left:
        waited = f"{time.monotonic() - ended:.0f} s after the last test, which the run's time has and no test's"
        beside = "by the tests, or of another run that goes on beside this one"
        print(f"\nleft behind {beside}, {waited}:", *left, sep="\n  ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Share tests out by module; the escape corpus by runtime and family: a session's traces are sought by the next."""
    return _ByModule(config, log)


class _ByModule(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        if module.startswith("tests/conformance/"):  # they share the clients they install
            return "conformance"
        if module != "tests/escape/test_corpus.py":
            return module
        return "-".join(test.partition("[")[2].split("-")[:2])


def _one_of_several(session: pytest.Session) -> bool:
    """Whether this process only runs a share of the tests; the one that shares them out looks at the host."""
    return hasattr(session.config, "workerinput")


@pytest.fixture(scope="session")
def environments_dir() -> Path:
    data = Path(os.environ.get("SANDCELL_DATA_DIR", REPOSITORY / ".sandcell"))
    return data / "environments"


@pytest.fixture(scope="session")
def environment(environments_dir: Path) -> Environment:
    built = environments.find_installed(environments_dir)
    assert "python" in built, (
        "the environment is not built; `make test` builds it, as `sandcell environments build python` does"
    )
    return built["python"]


@pytest.fixture(params=("runc", "crun", "runsc"))
def runtime_name(request: pytest.FixtureRequest) -> str:
    """Every runtime in turn; a test that is about one, or about none, names it with `parametrize`."""
    return str(request.param)


@pytest.fixture(scope="session")
def short_directory() -> Iterator[Path]:
    """A directory with a path short enough for Unix sockets below it."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def moto_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An S3 server whose bucket many share, each with a prefix of its own: it takes seconds to start."""
    from tests.doubles.s3_servers import s3_server  # with boto3, which one module run by itself seldom needs

    with s3_server("moto", tmp_path_factory.mktemp("moto")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server, in which each test makes databases of its own."""
    from tests.postgresql_server import find_programs, postgresql_server  # with its driver, which few tests need

    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: `make test` installs Debian's package postgresql")
    with postgresql_server(programs) as server:
        yield server


@pytest.fixture(params=("sqlite", "postgresql"))
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database with this version's tables, of each kind in turn; SQLite's are made when it opens."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/data/sandcell.db"
    return request.getfixturevalue("postgresql").create_database()  # type: ignore[no-any-return]


@pytest.fixture(params=("sqlite", "postgresql"))
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same of a database without tables."""
    if request.param == "sqlite":
        (tmp_path / "data").mkdir()
        return f"sqlite:///{tmp_path}/data/sandcell.db"
    return request.getfixturevalue("postgresql").create_database(migrated=False)  # type: ignore[no-any-return]


MakeService = Callable[..., RunningService]


@contextmanager
def _services(environments_dir: Path, shared: Path) -> Iterator[MakeService]:
    """Start services, each with directories of its own unless given; stop all at the end."""
    with ExitStack() as stack:

        def make(
            data_dir: Path | None = None,
            extra_environment: Mapping[str, str] | None = None,
            *,
            python: str | Path = sys.executable,
            **settings: object,
        ) -> RunningService:
            directory = data_dir
            if directory is None:
                directory = share_guest(Path(tempfile.mkdtemp(prefix="scdata", dir="/tmp")), shared)
                stack.callback(shutil.rmtree, directory, ignore_errors=True)
            every = {"environments_dir": environments_dir, **UNHURRIED, **settings}
            service = RunningService(directory, every, extra_environment, python=python)
            stack.callback(service.stop)
            service.start()
            return service

        yield make


@pytest.fixture(scope="module")
def make_service(environments_dir: Path, short_directory: Path) -> Iterator[MakeService]:
    """Starts services that are stopped when the module is done: one that idles costs the others time and memory."""
    with _services(environments_dir, short_directory) as make:
        yield make


@pytest.fixture(scope="session")
def make_shared_service(environments_dir: Path, short_directory: Path) -> Iterator[MakeService]:
    """Starts services that live as long as the run."""
    with _services(environments_dir, short_directory) as make:
        yield make


@pytest.fixture(scope="session")
def service(make_shared_service: MakeService) -> RunningService:
    """One real service for tests that do not restart or starve it, started among variables of somebody's."""
    return make_shared_service(
        extra_environment={"SECRET_OF_THE_HOST": "not-for-neighbours"}, invocations_per_second=1000
    )
