"""`python -m suites`: the S3 suites of OpenStack Swift against the embedded Swift alone, and through Forebay.

    test/s3api               what Swift's developers run against AWS as well: errors of uploads, checksums, versions
    test/functional/s3api    the older one, with boto 2, both signatures, three users and ACLs

Installs Swift's source distribution, of the version that the embedded origin is, with what its tests need into
.clients/swift-suite. Each suite runs twice against the same origin, and a case that passes alone and not through
Forebay is told. Ends with 1 if there is one that KNOWN does not explain.
"""

import http.client
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from forebay.shell.demo.child import Child
from forebay.shell.demo.forebay_server import free_ports, write_private
from forebay.shell.demo.swift import EmbeddedSwift

HOME: Final = Path(".clients/swift-suite").absolute()
USERS: Final = {"test:tester": "testing", "test:tester2": "testing2", "test:tester3": "testing3"}
SUITES: Final = ("test/s3api", "test/functional/s3api")
KNOWN: Final = {
    "test_put_object_weird_metadata": "header names that are no tokens of HTTP are refused, not dropped",
    "test_delete_multi_objects_error": "100 MB that are refused by their length are read for two seconds only",
}
_NEEDED: Final = ("boto", "boto3", "pytest", "pytest-subtests", "pytest-timeout", "requests", "python-swiftclient")
_TEMPAUTH: Final = (
    "user_test_tester2 = testing2 .admin\nuser_test_tester3 = testing3\nuser_test2_tester2 = testing2 .admin"
)
_CONFIGURED: Final = """\
[s3api_test]
endpoint = http://127.0.0.1:{port}
region = us-east-1
access_key1 = test:tester
secret_key1 = testing
access_key2 = test:tester2
secret_key2 = testing2
access_key3 = test:tester3
secret_key3 = testing3
s3_acl_tests_enabled = true

[func_test]
auth_uri = http://127.0.0.1:{origin}/auth/v1.0
s3_storage_url = http://127.0.0.1:{port}/
s3_region = us-east-1
account = test
username = tester
password = testing
s3_access_key = test:tester
s3_secret_key = testing
account2 = test2
username2 = tester2
password2 = testing2
username3 = tester3
password3 = testing3
s3_access_key2 = test:tester2
s3_secret_key2 = testing2
s3_access_key3 = test:tester3
s3_secret_key3 = testing3
"""
_FOREBAY: Final = """\
[server]
listen = "127.0.0.1:{listen}"
admin = "127.0.0.1:{admin}"
access_log = "off"

[origin]
endpoint = "{endpoint}"
dialect = "swift"
access_key = "test:tester"
secret_key = "testing"
"""
_KEY: Final = """
[[auth.keys]]
id = "{user}"
secret = "{secret}"
origin_access_key = "{user}"
origin_secret_key = "{secret}"
grants = [{{ path = "**", allow = ["read", "write", "list", "delete"] }}]
"""


def installed(version: str) -> Path:
    """The unpacked source distribution; its tests' environment is beside it."""
    unpacked, python = HOME / f"swift-{version}", HOME / "venv/bin/python"
    if not (unpacked / "test/s3api").is_dir():
        venv.create(HOME / "venv", with_pip=True)
        pip = (str(python), "-m", "pip", "--quiet", "--disable-pip-version-check")
        _run(*pip, "install", "pbr", "setuptools", "wheel", f"swift=={version}", *_NEEDED)
        sdist = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:")
        _run(*pip, "download", *sdist, "--dest", str(HOME), f"swift=={version}")
        with tarfile.open(HOME / f"swift-{version}.tar.gz") as archive:
            archive.extractall(HOME, filter="data")
        # The functional suite needs eventlet to take over sockets before anything else imports them.
        (HOME / "site").mkdir(exist_ok=True)
        (HOME / "site/sitecustomize.py").write_text("import eventlet\neventlet.monkey_patch()\n")
    return unpacked


def outcomes(unpacked: Path, suite: str, directory: Path, port: int, origin: int) -> Mapping[str, str]:
    """What became of each case against the endpoint on `port`."""
    configured, report = directory / f"{port}.conf", directory / f"{port}.xml"
    configured.write_text(_CONFIGURED.format(port=port, origin=origin))
    environ = {**os.environ, "SWIFT_TEST_CONFIG_FILE": str(configured), "SWIFT_TEST_QUIET_BOTO_LOGS": "1"}
    environ["PYTHONPATH"] = str(HOME / "site") if "functional" in suite else ""
    command = (str(HOME / "venv/bin/python"), "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider")
    more = ("--timeout", "120", f"--junitxml={report}", suite)
    subprocess.run((*command, *more), cwd=unpacked, env=environ, stdout=subprocess.DEVNULL, check=False)  # noqa: S603 # our own words
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 # pytest wrote it
        name = f"{case.get('classname')}::{case.get('name')}"
        tags = {child.tag for child in case}
        outcome = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        if found.get(name) != "failed":  # a case with subtests is there several times
            found[name] = outcome
    return found


def compared(unpacked: Path, suite: str, directory: Path, origin: int, forebay: int) -> int:
    """How many cases pass alone and not through Forebay, without a reason."""
    alone = outcomes(unpacked, suite, directory, origin, origin)
    through = outcomes(unpacked, suite, directory, forebay, origin)
    lost = [name for name, outcome in alone.items() if outcome == "passed" != through.get(name)]
    print(f"{suite}: {dict(Counter(alone.values()))} alone, {dict(Counter(through.values()))} through Forebay")  # noqa: T201 # the command's output
    for name in lost:
        print(f"  lost: {name} ({KNOWN.get(name.rpartition('::')[2], 'not known why')})")  # noqa: T201 # likewise
    return sum(name.rpartition("::")[2] not in KNOWN for name in lost)


def main() -> int:
    unpacked = installed(importlib.metadata.version("swift"))
    options = {"tempauth": _TEMPAUTH, "s3api": "s3_acl = true\ncheck_bucket_owner = true"}
    listen, admin = free_ports(2)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        with EmbeddedSwift(directory / "swift", options=options) as origin:
            text = _FOREBAY.format(listen=listen, admin=admin, endpoint=origin.endpoint)
            text += "".join(_KEY.format(user=user, secret=secret) for user, secret in USERS.items())
            file = directory / "forebay.toml"
            write_private(file, text)
            log = directory / "forebay.log"
            child = Child("forebay_client.main", "serve", "--config", str(file), log=log, announces=False)
            with child:
                while not _ready(admin):
                    if child.ended_within(0.05):
                        raise child.failed("ended while starting")
                return min(1, sum(compared(unpacked, suite, directory, origin.port, listen) for suite in SUITES))


def _ready(admin: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", admin, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _run(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603 # our own words


if __name__ == "__main__":
    sys.exit(main())
