"""The integration tests of botocore and s3transfer: what the makers of boto3 run against Amazon S3 itself.

They are pointed at an endpoint by the environment that boto3 itself reads. What they first do to every bucket and no
case is about (its encryption, its public access block, its region) not every origin has: a plugin, in both runs,
answers it in the suite's own process. It also shortens their waits for a store that is not consistent at once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suites.commands import installed, pytest_outcomes, source_distribution
from suites.endpoints import ACCESS_KEY, SECRET_KEY, SuiteEndpoint
from suites.suite import Suite

BOTOCORE: Final = "botocore==1.44.5"
S3TRANSFER: Final = "s3transfer==0.19.3"
_NEEDED: Final = ("pytest", "pytest-timeout", "boto3==1.44.5")
_PLUGIN: Final = """\
import time

import botocore.client
import botocore.session

_slept = time.sleep
time.sleep = lambda seconds: _slept(min(seconds, 0.05))

_asked = botocore.client.BaseClient._make_api_call
_made = botocore.session.Session.create_client
_UNKNOWN = ("PutBucketEncryption", "DeletePublicAccessBlock")


def _ask(self, operation, params):
    if operation in _UNKNOWN:
        return {"ResponseMetadata": {"HTTPStatusCode": 200}}
    if operation == "CreateBucket":
        params.pop("CreateBucketConfiguration", None)
        params.pop("ObjectOwnership", None)
    return _asked(self, operation, params)


def _make(self, service_name, region_name=None, *args, **kwargs):
    return _made(self, service_name, "us-east-1", *args, **kwargs)


botocore.client.BaseClient._make_api_call = _ask
botocore.session.Session.create_client = _make
"""


def _environ(ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
    return {
        "AWS_ENDPOINT_URL": ground.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(directory / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(directory / "none"),
        "PYTHONPATH": str(directory),
    }


def _suite(pin: str, title: str, tests: str) -> Suite:
    name = pin.partition("==")[0]

    def install() -> Path:
        return installed(name, pin, lambda home: source_distribution(home, pin, _NEEDED))

    def run(place: Path, ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
        (directory / "plain_buckets.py").write_text(_PLUGIN)
        python, unpacked = place / "venv/bin/python", place / pin.replace("==", "-")
        more = ("-p", "plain_buckets", tests)
        return pytest_outcomes(python, unpacked, directory / "report.xml", _environ(ground, directory), *more)

    return Suite(name, title, f"PyPI, source distribution of `{pin}`, {tests}", ("swift", "moto"), install, run)


SUITES: Final = (
    _suite(BOTOCORE, "botocore, integration tests of S3", "tests/integration/test_s3.py"),
    _suite(S3TRANSFER, "s3transfer, integration tests", "tests/integration"),
)
