"""The embedded default of `forebay serve`: with no origin configured, one of its own and a sample data set.

    .forebay/origin/    the embedded origin's data (FOREBAY_DEMO_DIR for another place)
    .forebay/cache/     Forebay's SSD tier in front of it

Only for trying Forebay out: its keys stand in the source, and it listens on loopback alone.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.settings.model import Settings
from forebay_demo.demo_directory import demo_directory
from forebay_demo.demo_origin import demo_origin
from forebay_demo.embedded_swift import EmbeddedSwift
from forebay_demo.samples import BUCKET

ACCESS_KEY: Final = "forebay"
SECRET_KEY: Final = "forebay-secret"  # noqa: S105 # printed at every start, and good on loopback only

_CONFIGURATION: Final = """\
[server]
domains = ["localhost"]

[origin]
endpoint = "{endpoint}"
region = "{region}"
dialect = "swift"
access_key = "{origin_access_key}"
secret_key = "{origin_secret_key}"

[memory]
size = "512MiB"

[ssd]
path = {cache}
size = "1GiB"

[[auth.keys]]
id = "{access_key}"
secret = "{secret_key}"
grants = [{{ path = "**", allow = ["read", "write", "list", "delete"] }}]
"""

_WELCOME: Final = """\
Forebay serves S3 and OSS on {endpoint} (metrics and control on {admin}).
No origin was configured, so an embedded one holds a sample data set in the bucket "{bucket}".

  access key {access_key}, secret {secret_key}, region us-east-1

Python:

  import boto3
  s3 = boto3.client("s3", endpoint_url="{endpoint}", region_name="us-east-1",
                    aws_access_key_id="{access_key}", aws_secret_access_key="{secret_key}")
  for _ in range(2):
      answer = s3.get_object(Bucket="{bucket}", Key="{key}")
      print(len(answer["Body"].read()), answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-cache"])

Shell:

  export AWS_ACCESS_KEY_ID={access_key} AWS_SECRET_ACCESS_KEY={secret_key} AWS_DEFAULT_REGION=us-east-1
  aws --endpoint-url {endpoint} s3 ls s3://{bucket}/train/

For a bucket of yours: forebay serve --config FILE, or FOREBAY_ORIGIN__ENDPOINT=... (docs/configuration.md).
Ctrl-C ends it. One line of JSON for each request follows.
"""


@dataclass(frozen=True, slots=True)
class EmbeddedOrigin:
    """The embedded origin, running, and where Forebay's own files in front of it are."""

    swift: EmbeddedSwift
    directory: Path

    @property
    def configuration(self) -> str:
        """The configuration, in TOML, that puts Forebay in front of it."""
        swift = self.swift
        return _configuration(swift.endpoint, swift.region, swift.access_key, swift.secret_key, self.directory)

    @staticmethod
    def welcome(settings: Settings) -> str:
        """What to type next."""
        return _WELCOME.format(
            endpoint=f"http://{settings.server.listen}",
            admin=f"http://{settings.server.admin}" if settings.server.admin is not None else "no port",
            bucket=BUCKET,
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            key="train/tensors/00000.f32",
        )


def _configuration(endpoint: str, region: str, access_key: str, secret_key: str, directory: Path) -> str:
    return _CONFIGURATION.format(
        endpoint=endpoint,
        region=region,
        origin_access_key=access_key,
        origin_secret_key=secret_key,
        cache=json.dumps(str(directory / "cache")),  # a TOML string as well
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
    )


EXPECTED: Final = _configuration("http://127.0.0.1:1", "us-east-1", "access", "secret", Path("/"))
"""Like `configuration`, before there is an origin: what else was given can be checked against it."""


@contextmanager
def embedded_origin() -> Iterator[EmbeddedOrigin]:
    """Running with its sample data inside the context. Raises DemoUnavailable with a sentence that says what to do."""
    directory = demo_directory().absolute()
    with demo_origin(directory / "origin") as swift:
        yield EmbeddedOrigin(swift, directory)
