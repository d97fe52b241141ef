"""The environments file: what it may say, what it becomes, and the sentence for everything else."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from kernel_gateway import environments_file
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.server import doctor, sandboxes
from kernel_gateway.server.sandboxes import make_larger
from kernel_gateway.settings import Settings
from kernels.environment import (
    Endpoint,
    Environment,
    ExecutionRole,
    MemoryLevels,
    NetworkMode,
    NetworkPolicy,
    PoolSize,
    Resources,
)

BUILT = {
    name: Environment(name, f"/e/{name}/root", "sha256:0", f"the {name}", image=name) for name in ("python", "data")
}
DEFAULTS = Resources(2048, 512, 512)
WHOLE = """
[python]
memory_mb = 4096

[etl]
image = "data"
description = "Loads the warehouse."
runtime = "runsc"
storage_mb = 1024
pids = 128
network = "ALLOWLIST"
allow = [
    "pypi.org:443",
    "*.PythonHosted.org.",
    "[2001:DB8:0::1]:8080",
    {host = "api.example.org", port = 80, methods = ["GET"], path_prefix = "/v1/"},
]

[etl.role]
bucket = "warehouse"
prefix = "etl/out"
access = "read-write"
endpoint_url = "http://127.0.0.1:9000"
profile = "etl"

[web]
image = "python"
network = "PUBLIC"
"""


def environments(text: str, **settings: int) -> dict[str, Environment]:
    said = Settings(data_dir="/x", **settings)  # type: ignore[arg-type]
    declared = environments_file.parse(text, said, "the file", processors=4)
    environments_file.require_images(declared, BUILT, "the file")
    return environments_file.apply_declared(declared, BUILT, DEFAULTS)


def test_a_table_becomes_an_environment() -> None:
    found = environments(WHOLE)
    assert set(found) == {"python", "data", "etl", "web"}
    assert found["etl"] == Environment(
        name="etl",
        root="/e/data/root",
        digest="sha256:0",
        description="Loads the warehouse.",
        resources=Resources(2048, 1024, 128),
        network=NetworkPolicy(
            NetworkMode.ALLOWLIST,
            (
                Endpoint("pypi.org", 443),
                Endpoint("*.pythonhosted.org", 443),
                Endpoint("2001:db8::1", 8080),
                Endpoint("api.example.org", 80, ("GET",), "/v1/"),
            ),
        ),
        role=ExecutionRole("warehouse", "etl/out/", True, "http://127.0.0.1:9000", "us-east-1", "etl"),
        image="data",
        runtime="runsc",
    )
    assert found["web"].network == NetworkPolicy(NetworkMode.PUBLIC)
    assert found["python"].resources.memory_mb == 4096
    assert found["python"].resources.vcpus == 4096 / 1769


def test_vcpus_may_be_declared_beside_the_memory() -> None:
    found = environments("[data]\nmemory_mb = 8192\nvcpus = 2\n[half]\nimage = 'python'\nvcpus = 0.5")
    assert (found["data"].resources.memory_mb, found["data"].resources.vcpus) == (8192, 2.0)
    assert (found["half"].resources.memory_mb, found["half"].resources.vcpus) == (2048, 0.5)


def test_more_vcpus_than_this_host_has_are_refused() -> None:
    with pytest.raises(SettingInvalid, match="the processors of this host"):
        environments_file.parse(f"[python]\nvcpus = {len(os.sched_getaffinity(0)) + 1}", Settings())


def test_what_a_table_leaves_out_is_the_images_and_the_settings() -> None:
    found = environments("[small]\nimage = 'data'", memory_mb=3000)
    assert found["small"].description == "the data"
    assert found["small"].resources == Resources(3000, 512, 512)
    assert found["small"].network == NetworkPolicy()
    assert found["small"].role is None
    assert found["data"].resources == DEFAULTS


def test_an_image_that_is_gone_takes_its_environments_along() -> None:
    declared = environments_file.parse(WHOLE, Settings(data_dir="/x"))
    left = environments_file.apply_declared(declared, {"python": BUILT["python"]}, DEFAULTS)
    assert set(left) == {"python", "web"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[python", "the file is not TOML"),
        ("python = 1", r"\[python\] must be a table"),
        ("['-x']", r"\[-x\] is no name"),
        ("[a]\nimage = 'ruby'", r"\[a\] image 'ruby' is not built \(built are: data, python\)"),
        ("[ruby]", r"\[ruby\] image 'ruby' is not built"),
        ("[python]\nnetwrok = 'PUBLIC'", r"\[python\] has an unknown key 'netwrok'; did you mean 'network'"),
        ("[python.v2]\nimage = 'python'", r"unknown key 'v2'; a name with dots is written in quotes"),
        ("[python]\nruntime = 'docker'", "runtime must be one of crun, kubernetes, runc, runsc, not 'docker'"),
        ("[python]\nmemory_mb = 100", r"memory_mb must be between 1,769 and 10,240, not 100"),
        ("[python]\nmemory_mb = '4096'", "memory_mb must be a whole number, not '4096'"),
        ("[python]\nvcpus = 0.2", r"vcpus must be between 0.25 and 4, the processors of this host, not 0.2"),
        ("[python]\nvcpus = 4.01", r"vcpus must be between 0.25 and 4, the processors of this host, not 4.01"),
        ("[python]\nvcpus = nan", "vcpus must be between 0.25 and 4"),
        ("[python]\nvcpus = inf", "vcpus must be between 0.25 and 4"),
        ("[python]\nvcpus = true", "vcpus must be a number, not True"),
        ("[python]\nvcpus = '2'", "vcpus must be a number, not '2'"),
        ("[python]\npids = true", "pids must be a whole number"),
        ("[python]\nstorage_mb = 99999", "storage_mb must be between"),
        ("[python]\nnetwork = 'OPEN'", "network must be one of SANDBOX, ALLOWLIST, PUBLIC, not 'OPEN'"),
        ("[python]\nnetwork = 'public'", "not 'public'"),
        ("[python]\nnetwork = 'ALLOWLIST'", "allows nothing"),
        ("[python]\nnetwork = 'PUBLIC'\nallow = ['a.b']", 'allow, which is for network = "ALLOWLIST" alone'),
        ("[python]\nallow = ['a.b']", "its network is SANDBOX"),
        ("[python]\ndescription = 'a\\u001b'\n", "printable"),
        ("[python]\nrole = 's3://b/p'", "role must be a table"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, says: str) -> None:
    with pytest.raises(SettingInvalid, match=says):
        environments(text.replace("'a\\u001b'", '"a\\u001b"'))


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("'pypi.org:0'", "between 1 and 65,535"),
        ("'pypi.org:65536'", "between 1 and 65,535"),
        ("'pypi.org:https'", "no host and port"),
        ("'https://pypi.org'", "no host and port"),
        ("'a b:1'", "no host"),
        ("'*:443'", "PUBLIC"),
        ("'*.org:443'", "top-level"),
        ("'a.*.org:443'", "no host"),
        ("'*pypi.org:443'", "no host"),
        ("'pypi..org:443'", "no host"),
        ("'bücher.de:443'", "xn--"),
        ("'2130706433:80'", "plain notation"),
        ("'127.1:80'", "plain notation"),
        ("'0177.0.0.1:80'", "plain notation"),
        ("'0x7f000001:80'", "plain notation"),
        ("'2001:db8::1:443'", "no host and port"),
        ("'[2001:db8::1%eth0]'", "no host"),
        ("'[::ffff:10.0.0.1]'", "no host"),
        ("7", "cannot be 7"),
        ("{port = 80}", "must say host"),
        ("{host = 'a.b', ports = 80}", "unknown key 'ports'; did you mean 'port'"),
        ("{host = 'a.b', port = '80'}", "port must be a whole number"),
        ("{host = 'a.b', port = 80, methods = 'GET'}", "methods must be a list"),
        ("{host = 'a.b', port = 80, methods = ['get']}", "in capitals"),
        ("{host = 'a.b', port = 80, methods = ['CONNECT']}", "tunnels"),
        ("{host = 'a.b', port = 80, methods = [1]}", "methods cannot be 1"),
        ("{host = 'a.b', port = 80, methods = []}", "methods lists none"),
        ("{host = 'a.b', port = 80, path_prefix = 'v1'}", "starts with /"),
        ("{host = 'a.b', port = 80, path_prefix = '/v1/../'}", "no . or .."),
        ("{host = 'a.b', port = 80, path_prefix = '/%2e%2e/'}", "no path prefix"),
        ("{host = 'a.b', port = 80, path_prefix = '//x'}", "no path prefix"),
        ("{host = 'a.b', methods = ['GET']}", "hides both"),
        ("{host = 'a.b', port = 443, path_prefix = '/'}", "hides both"),
    ],
)
def test_an_endpoint_is_exact_or_refused(endpoint: str, says: str) -> None:
    with pytest.raises(SettingInvalid, match=says) as refused:
        environments(f"[python]\nnetwork = 'ALLOWLIST'\nallow = [{endpoint}]")
    assert "[python]" in str(refused.value)


@pytest.mark.parametrize(
    ("role", "says"),
    [
        ("{prefix = 'a/'}", "must say bucket"),
        ("{bucket = 'bucket'}", "must say prefix"),
        ("{bucket = 'B', prefix = 'a/'}", "bucket must be the name"),
        ("{bucket = 'buc..ket', prefix = 'a/'}", "bucket must be the name"),
        ("{bucket = 'bucket', prefix = ''}", "no prefix"),
        ("{bucket = 'bucket', prefix = '/'}", "no prefix"),
        ("{bucket = 'bucket', prefix = '/a'}", "no prefix"),
        ("{bucket = 'bucket', prefix = 'a//b'}", "no prefix"),
        ("{bucket = 'bucket', prefix = 'a/../b'}", "no prefix"),
        ("{bucket = 'bucket', prefix = 'a%2fb'}", "no prefix"),
        ("{bucket = 'bucket', prefix = 'a b'}", "no prefix"),
        ("{bucket = 'bucket', prefix = 'a', access = 'write'}", "access must be one of read, read-write"),
        ("{bucket = 'bucket', prefix = 'a', endpoint_url = 'ftp://x'}", "no address of an S3 server"),
        ("{bucket = 'bucket', prefix = 'a', endpoint_url = 'https://k:s@x'}", "no address of an S3 server"),
        ("{bucket = 'bucket', prefix = 'a', endpoint_url = 'https://x/path'}", "no address of an S3 server"),
        ("{bucket = 'bucket', prefix = 'a', endpoint_url = 'https://x:99999'}", "endpoint_url"),
        ("{bucket = 'bucket', prefix = 'a', endpoint_url = 'https://x y'}", "no address of an S3 server"),
        ("{bucket = 'bucket', prefix = 'a', endpoint_url = 'https://x:'}", "no address of an S3 server"),
        ("{bucket = 'bucket', prefix = 'a', region = 'EU'}", "region must be"),
        ("{bucket = 'bucket', prefix = 'a', secret_access_key = 'x'}", "unknown key 'secret_access_key'"),
    ],
)
def test_a_role_is_one_prefix_and_nothing_secret(role: str, says: str) -> None:
    with pytest.raises(SettingInvalid, match=says) as refused:
        environments(f"[python]\nrole = {role}")
    assert "[python] role" in str(refused.value)


@pytest.mark.parametrize("written", ["a/b", "a/b/"])
def test_a_prefix_ends_with_a_slash(written: str) -> None:
    role = environments(f"[python]\nrole = {{bucket = 'bucket', prefix = '{written}'}}")["python"].role
    assert role == ExecutionRole("bucket", "a/b/", write=False)


def test_a_list_of_packages_makes_an_image_of_its_own() -> None:
    text = "[plus]\nimage = 'python'\nkeep_packages = true\npackages = ['a==1.0', 'b[x,y]>=2,<3', 'C_d.e', 'f~=1.2.*']"
    declared = environments_file.parse(text, Settings())
    assert declared["plus"].packages == ("a==1.0", "b[x,y]>=2,<3", "C_d.e", "f~=1.2.*")
    assert declared["plus"].keep_packages
    image = Environment("python", "/e/root", "sha256:1")
    with pytest.raises(SettingInvalid, match="build it: sandcell environments build plus"):
        environments_file.require_images(declared, {"python": image}, "x")
    own = Environment("plus", "/plus/root", "sha256:2")
    found = environments_file.apply_declared(declared, {"python": image, "plus": own}, Resources())
    assert (found["plus"].image, found["plus"].root) == ("plus", "/plus/root")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("packages = []", "lists none"),
        ("packages = ['--index-url=http://x']", "is no package"),
        ("packages = ['a @ https://x/a.whl']", "is no package"),
        ("packages = ['a\\nb']", "is no package"),
        ("packages = [1]", "is no package"),
        ("packages = 'a'", "must be a list"),
        ("apt = []", "lists none"),
        ("apt = ['-o=x']", "is no Debian package"),
        ("apt = ['jq-']", "is no Debian package"),
        ("apt = ['./x.deb']", "is no Debian package"),
        ("apt = ['jq=1; true']", "is no Debian package"),
        ("apt = ['j.*']", "is no Debian package"),
        ("image = 'python'\napt = ['jq']", "has apt, and must name the image"),
        ("image = 'python'\npackages = ['a']", "another than itself"),
        ("keep_packages = 1", "must be true or false"),
    ],
)
def test_a_list_of_packages_that_makes_no_sense_is_refused(line: str, says: str) -> None:
    with pytest.raises(SettingInvalid, match=says):
        environments_file.parse(f"[python]\n{line}", Settings())


def test_each_environment_says_when_its_memory_is_short() -> None:
    told = environments("[etl]\nimage = 'data'\nmemory_guard_percent = 0", memory_warn_percent=70)
    assert told["etl"].memory_levels == MemoryLevels(70, 0)
    assert told["etl"].memory_levels.percents == (70,)
    assert environments("")["python"].memory_levels == MemoryLevels(85, 95)
    for wrong in ("100", "-1", "true"):
        with pytest.raises(SettingInvalid, match="memory_warn_percent must be"):
            environments(f"[python]\nmemory_warn_percent = {wrong}")


def test_variables_are_kept_where_a_table_says_so() -> None:
    told = environments('[etl]\nimage = "data"\nkeep_variables = "on_idle"\nkeep_variables_mb = 7')
    assert (told["etl"].keep_variables, told["etl"].keep_variables_mb) == ("on_idle", 7)
    assert environments("[etl]\nimage = 'data'")["etl"].keep_variables is None, "as the service has it"
    with pytest.raises(SettingInvalid, match="keep_variables must be one of"):
        environments("[python]\nkeep_variables = 'always'")


@pytest.mark.parametrize(
    ("written", "least", "most"),
    [("4", 4, 4), ("0", 0, 0), ("{most = 3}", 0, 3), ("{least = 2, most = 9}", 2, 9), ("{least = 2, most = 2}", 2, 2)],
)
def test_a_pool_has_a_size_or_two_bounds(written: str, least: int, most: int) -> None:
    assert environments(f"[python]\nwarm = {written}")["python"].pool == PoolSize(least, most)
    assert environments("[python]")["python"].pool == PoolSize(0, 0)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("-1", "warm must be between 0 and 1,000, not -1"),
        ("1001", "warm must be between 0 and 1,000"),
        ("true", "warm must be a whole number"),
        ("'4'", "warm must be a whole number"),
        ("{}", "must say most"),
        ("{least = 4}", "must say most"),
        ("{least = 4, most = 3}", "most must be between 4 and 1,000"),
        ("{most = 0}", "most must be between 1 and 1,000"),
        ("{least = 1, most = 2, size = 3}", "unknown key 'size'"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused(written: str, says: str) -> None:
    with pytest.raises(SettingInvalid, match=says):
        environments_file.parse(f"[python]\nwarm = {written}", Settings())


@pytest.mark.parametrize(
    ("written", "url", "who"),
    [
        ("https://pypi.example.org/simple", "https://pypi.example.org/simple/", ""),
        ("http://10.0.0.1:3141", "http://10.0.0.1:3141/", ""),
        ("https://a:b%3Ac@[2001:db8::1]:8443/r/+simple/", "https://[2001:db8::1]:8443/r/+simple/", "a:b:c"),
        ("http://__token__:x@127.0.0.1:8080/simple", "http://127.0.0.1:8080/simple/", "__token__:x"),
    ],
)
def test_a_package_index_is_an_address_and_what_the_service_says_to_it(written: str, url: str, who: str) -> None:
    index = environments(f"[python]\nindex_url = '{written}'")["python"].index
    assert index is not None
    assert index.url == url
    assert base64.b64decode(index.authorization.removeprefix("Basic ")).decode() == who
    assert index.authorization not in repr(index) or not who


@pytest.mark.parametrize(
    "written",
    ["pypi.org/simple", "ftp://a.b/simple", "https://a.b/simple?x=secret", "https://a.b/a b", "https://a.b/../x%2f",
     "https:///simple", "https://secret:secret@/x", "http://user:secret@a.b/simple", "https://a.b:0/", "https://7f.1/",
     "http://user:secret@127.0.0.1.a.b/simple", "https://a.b:99999/", "https://localhost.:secret/"],
)  # fmt: skip
def test_another_address_is_no_package_index_and_no_message_quotes_a_password(written: str) -> None:
    with pytest.raises(SettingInvalid, match=r"\[python\] index_url: ") as refused:
        environments(f"[python]\nindex_url = '{written}'")
    assert "secret" not in str(refused.value)


def test_the_file_is_the_named_one_or_the_one_in_the_data_directory(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    assert sandboxes.find_installed(settings) == {}
    (tmp_path / "environments.toml").write_text("[a]\nimage = 'python'")
    with pytest.raises(SettingInvalid, match=r"environments\.toml: \[a\] image 'python' is not built"):
        sandboxes.find_installed(settings)
    with pytest.raises(SettingInvalid, match="cannot be read: No such file"):
        sandboxes.find_installed(Settings(data_dir=str(tmp_path), environments_file=str(tmp_path / "other.toml")))


def test_the_doctor_says_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    (tmp_path / "environments.toml").write_text("[a]\nmemory = 1")
    finding = doctor.find_environments(settings)
    assert not finding.ok
    assert "[a] has an unknown key 'memory'; did you mean 'memory_mb'?" in finding.detail


def test_a_file_that_is_no_text_or_no_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_bytes(b"\xff")
    with pytest.raises(SettingInvalid, match="not UTF-8"):
        environments_file.read(file)
    file.write_bytes(b"#" * (environments_file.MOST_BYTES + 1))
    with pytest.raises(SettingInvalid, match="larger than"):
        environments_file.read(file)


ROLES = """
[[roles]]
arn = "arn:aws:iam::123456789012:role/team/etl"
principals = ["ann", "ben"]
bucket = "warehouse"
prefix = "etl"
access = "read-write"
profile = "etl"

[[roles]]
arn = "arn:aws-cn:iam:::role/all"
principals = ["*"]
bucket = "public"
prefix = "read/"

[scraper]
image = "python"
network = "PUBLIC"
"""


def test_roles_are_declared_beside_environments() -> None:
    etl, everyone = environments_file.parse_roles(ROLES)
    assert etl.arn == "arn:aws:iam::123456789012:role/team/etl"
    assert etl.role == ExecutionRole("warehouse", "etl/", write=True, profile="etl")
    assert [etl.is_for(name) for name in ("ann", "ben", "eve", "*")] == [True, True, False, False]
    assert everyone.role == ExecutionRole("public", "read/")
    assert everyone.is_for("eve")
    assert set(environments(ROLES)) == {"python", "data", "scraper"}
    assert environments_file.parse_roles("") == ()


def test_an_environment_may_be_called_roles() -> None:
    text = '[roles]\nimage = "python"\n'
    assert "roles" in environments(text)
    assert environments_file.parse_roles(text) == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('principals = ["*"]', ""), "must say principals"),
        (('principals = ["*"]', "principals = []"), "principals must be a list of the names"),
        (('principals = ["*"]', "principals = [1]"), "principals must be a list of the names"),
        (('principals = ["*"]', 'principals = "*"'), "principals must be a list"),
        (("arn:aws-cn:iam:::role/all", "role/all"), "arn must be written as"),
        (("arn:aws-cn:iam:::role/all", "arn:aws:iam::123456789012:role/team/etl"), "more than once"),
        (('bucket = "public"', ""), "must say bucket"),
        (('prefix = "read/"', 'prefix = "/"'), "is no prefix"),
        (('prefix = "read/"', 'prefx = "read/"'), "did you mean 'prefix'"),
    ],
)
def test_a_role_that_makes_no_sense_stops_the_start(change: tuple[str, str], says: str) -> None:
    text = ROLES.replace(*change)
    assert text != ROLES
    with pytest.raises(SettingInvalid, match=says) as refused:
        environments(text)
    assert str(refused.value).startswith("the file: [[roles]]")


@pytest.mark.parametrize(("host_mb", "memory_mb"), [(65_536, 8_192), (16_384, 8_192), (8_000, 4_000), (2_000, 2_048)])
def test_the_image_data_has_what_the_host_has_for_it_unless_it_is_declared(host_mb: int, memory_mb: int) -> None:
    larger = make_larger(Settings(), host_mb, processors=4)
    built = {**BUILT, "data": BUILT["python"]}
    found = environments_file.apply_declared({}, built, DEFAULTS, larger)
    assert (found["data"].resources.memory_mb, found["data"].resources.storage_mb) == (memory_mb, 10_240)
    assert found["data"].resources.vcpus == 2.0
    assert make_larger(Settings(), host_mb, processors=1)["data"].vcpus == 1.0
    assert make_larger(Settings(memory_mb=8_845), host_mb, processors=8)["data"].vcpus == 5.0
    assert found["python"].resources == DEFAULTS
    declared = environments_file.parse("[data]\nmemory_mb = 3000", Settings())
    assert environments_file.apply_declared(declared, built, DEFAULTS, larger)["data"].resources.memory_mb == 3_000


def test_how_figures_are_shown_is_one_of_two() -> None:
    found = environments('[python]\nfigures = "blocks"\n[web]\nimage = "python"')
    assert (found["python"].figures, found["web"].figures, found["data"].figures) == ("blocks", "files", "files")
    with pytest.raises(SettingInvalid, match="figures must be one of files, blocks, not 'inline'"):
        environments('[python]\nfigures = "inline"')
