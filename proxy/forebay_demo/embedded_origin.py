"""`forebay serve` without a configured origin: an embedded one, with a sample data set.

    .forebay/origin/    the embedded origin's data (FOREBAY_DEMO_DIR sets another directory)
    .forebay/cache/     Forebay's SSD tier
    .forebay/state/     Forebay's run record

Only for trying Forebay out: the keys are part of this source, and it listens on loopback alone.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.core.errors import SettingsError
from forebay.serve import fail, serve
from forebay.server.config_source import ConfigSource
from forebay.settings.model import Settings
from forebay_demo.child_process import DemoUnavailable
from forebay_demo.demo_directory import demo_directory
from forebay_demo.demo_origin import demo_origin
from forebay_demo.embedded_swift import EmbeddedSwift
from forebay_demo.forebay_server import OriginAddress
from forebay_demo.samples import BUCKET

ACCESS_KEY: Final = "forebay"
SECRET_KEY: Final = "forebay-secret"  # noqa: S105 # printed at every start, and used on loopback only

_CONFIGURATION: Final = """\
[server]
domains = ["localhost"]
state_dir = {state}

[origin]
endpoint = "{endpoint}"
cache_id = "{cache_id}"
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
    """A running embedded origin, and the directory of Forebay's own files."""

    swift: EmbeddedSwift
    directory: Path

    @property
    def configuration(self) -> str:
        """The TOML configuration that serves it."""
        swift = self.swift
        address = OriginAddress(swift.endpoint, swift.region, swift.access_key, swift.secret_key)
        return _configuration(address, f"embedded-{swift.id}", self.directory)

    @staticmethod
    def welcome(settings: Settings) -> str:
        """The text printed at a start: addresses, keys, commands to try."""
        return _WELCOME.format(
            endpoint=f"http://{settings.server.listen}",
            admin=f"http://{settings.server.admin}" if settings.server.admin is not None else "no port",
            bucket=BUCKET,
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            key="train/tensors/00000.f32",
        )


def _configuration(origin: OriginAddress, cache_id: str, directory: Path) -> str:
    return _CONFIGURATION.format(
        endpoint=origin.endpoint,
        cache_id=cache_id,
        region=origin.region,
        origin_access_key=origin.access_key,
        origin_secret_key=origin.secret_key,
        cache=json.dumps(str(directory / "cache")),  # a TOML string as well
        state=json.dumps(str(directory / "state")),
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
    )


_PLACEHOLDER: Final = _configuration(
    OriginAddress("http://127.0.0.1:1", "us-east-1", "access", "secret"), "embedded", Path("/")
)
"""A configuration of the same form, to validate environment and flags before an origin runs."""


def serve_embedded(source: ConfigSource) -> int:
    """Starts the embedded origin and serves it until a signal. Returns the exit code, as forebay.serve.serve does.

    `source`: environment and flags, which override the embedded configuration.
    """
    try:
        ConfigSource(None, source.environ, source.flags, _PLACEHOLDER).load()
    except SettingsError as error:
        return fail(f"The configuration is refused:\n{error}", 2)
    print("Starting the embedded origin ...", file=sys.stderr, flush=True)  # noqa: T201 # the command's output
    try:
        with embedded_origin() as embedded:
            return serve(ConfigSource(None, source.environ, source.flags, embedded.configuration), embedded.welcome)
    except DemoUnavailable as error:
        return fail(
            f"No origin is configured (forebay serve --config FILE), and the embedded one can't run: {error}", 1
        )
    except KeyboardInterrupt:
        return 0  # while the origin starts


@contextmanager
def embedded_origin() -> Iterator[EmbeddedOrigin]:
    """The embedded origin, running inside the context. Raises DemoUnavailable, whose message says what to do."""
    directory = demo_directory().absolute()
    with demo_origin(directory / "origin") as swift:
        yield EmbeddedOrigin(swift, directory)
