"""The two S3 suites of OpenStack Swift, of the version that the embedded origin is.

test/s3api               what Swift's developers run against AWS as well: errors of uploads, checksums, versions
test/functional/s3api    the older one, with boto 2, both signatures, three users and ACLs
"""

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suites.commands import installed, pytest_outcomes, source_distribution
from suites.endpoints import USERS, SuiteEndpoint
from suites.suite import Suite

PIN: Final = f"swift=={importlib.metadata.version('swift')}"
_NEEDED: Final = (
    "pbr",
    "boto",
    "boto3",
    "pytest",
    "pytest-subtests",
    "pytest-timeout",
    "requests",
    "python-swiftclient",
)
_KNOWN: Final = {
    "test_put_object_weird_metadata": "header names that are no tokens of HTTP are refused, not dropped",
}
_ENDPOINT: Final = """\
[s3api_test]
endpoint = http://127.0.0.1:{port}
region = us-east-1
s3_acl_tests_enabled = true

[func_test]
auth_uri = http://127.0.0.1:{origin}/auth/v1.0
s3_storage_url = http://127.0.0.1:{port}/
s3_region = us-east-1
"""


def _configuration(ground: SuiteEndpoint) -> str:
    first, second = _ENDPOINT.format(port=ground.port, origin=ground.origin).split("\n\n")
    for number, (user, secret) in enumerate(USERS.items(), 1):
        which = "" if number == 1 else str(number)
        account = f"test{which}" if number < 3 else "test"  # the third user is of the first account
        first += f"\naccess_key{number} = {user}\nsecret_key{number} = {secret}"
        second += f"s3_access_key{which} = {user}\ns3_secret_key{which} = {secret}\n"
        second += f"username{which} = {user.partition(':')[2]}\npassword{which} = {secret}\n"
        second += f"account{which} = {account}\n" if number < 3 else ""  # likewise
    return f"{first}\n\n{second}"


def _install() -> Path:
    def install(home: Path) -> None:
        source_distribution(home, PIN, _NEEDED)
        # The functional suite needs eventlet to take over sockets before anything else imports them.
        (home / "site").mkdir()
        (home / "site/sitecustomize.py").write_text("import eventlet\neventlet.monkey_patch()\n")

    return installed("swift", PIN, install)


def _suite(name: str, title: str, tests: str) -> Suite:
    def run(place: Path, ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
        configured = directory / "suite.conf"
        configured.write_text(_configuration(ground))
        environ = {
            "SWIFT_TEST_CONFIG_FILE": str(configured),
            "SWIFT_TEST_QUIET_BOTO_LOGS": "1",
            "PYTHONPATH": str(place / "site") if "functional" in tests else "",
        }
        python, unpacked = place / "venv/bin/python", place / PIN.replace("==", "-")
        return pytest_outcomes(python, unpacked, directory / "report.xml", environ, tests)

    source = f"PyPI, source distribution of `{PIN}`, {tests}"
    return Suite(name, title, source, ("swift-acl",), _install, run, _KNOWN)


SUITES: Final = (
    _suite("swift", "OpenStack Swift, `s3api`", "test/s3api"),
    _suite("swift-functional", "OpenStack Swift, functional tests of S3", "test/functional/s3api"),
)
