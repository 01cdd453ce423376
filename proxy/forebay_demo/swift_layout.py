"""The embedded origin's directory: the configuration of Swift's four servers, and its objects.

    DIR/swift.conf                     the hash salt; it places objects, so it must never change
    DIR/{account,container,object,proxy}-server.conf
    DIR/{account,container,object}.ring.gz    written at each start by swift_server, since the ports change
    DIR/devices/d1/                    accounts, containers and objects: what persists
    DIR/id, DIR/port                   a name of the objects, and the port of the last start
    DIR/log/                           standard error of the processes
    DIR/lock                           held while an origin runs here

Everything but the objects is rewritten at each start. Pipeline and options follow Swift's sample proxy-server.conf,
https://docs.openstack.org/swift/latest/config/proxy_server_config.html, and s3api's.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

ACCESS_KEY: Final = "test:tester"
SECRET_KEY: Final = "testing"  # noqa: S105 - a throw-away origin on loopback
REGION: Final = "us-east-1"
STORAGE_DOMAIN: Final = "s3.localhost"
"""A Host of `bucket.s3.localhost` is virtual-hosted style."""

BACKENDS: Final = ("account", "container", "object")
SERVERS: Final = (*BACKENDS, "proxy")
DEVICE: Final = "d1"

_FILTERS = "forebay_demo.swift_filters"

_SWIFT = """\
[swift-hash]
swift_hash_path_prefix = forebay
swift_hash_path_suffix = demo

[storage-policy:0]
name = Policy-0
default = yes
"""

_DEFAULT = """\
[DEFAULT]
swift_dir = {directory}
devices = {directory}/devices
mount_check = false
disable_fallocate = true
fallocate_reserve = 0
log_level = ERROR
log_custom_handlers = {filters}.log_to_stderr
"""

_BACKEND = """
[pipeline:main]
pipeline = {name}-server

[app:{name}-server]
use = egg:swift#{name}
"""

# A listing that is not updated within the default second would be left to Swift's updater, and none runs here.
_OBJECT = "container_update_timeout = 60\n"

_PROXY = """
[pipeline:main]
pipeline = {pipeline} proxy-server

[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
conn_timeout = 5
node_timeout = 60

[filter:tally]
paste.filter_factory = {filters}:counting_filter

[filter:cache]
paste.filter_factory = {filters}:cache_filter

[filter:s3api]
use = egg:swift#s3api
location = {region}
storage_domain = {domain}
max_upload_part_num = 10000

[filter:tempauth]
use = egg:swift#tempauth
user_{user} = {secret} .admin

[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_object_versioning = true
"""

_PIPELINE = (
    "tally catch_errors gatekeeper healthcheck listing_formats cache bulk s3api tempauth copy slo dlo versioned_writes "
    "symlink"
)
_CONFIGURED = ("tally", "cache", "s3api", "tempauth", "versioned_writes")


def write_layout(directory: Path, options: Mapping[str, str] = MappingProxyType({})) -> None:
    """Makes what is missing in `directory` and writes the configuration. `directory` is absolute. `options`: lines that
    are added to the proxy server's filters, by their names. OSError as it comes."""
    (directory / "devices" / DEVICE).mkdir(parents=True, exist_ok=True)
    (directory / "log").mkdir(exist_ok=True)
    (directory / "swift.conf").write_text(_SWIFT)
    default = _DEFAULT.format(directory=_escaped(directory), filters=_FILTERS)
    for name in BACKENDS:
        text = default + _BACKEND.format(name=name) + (_OBJECT if name == "object" else "")
        configuration_of(directory, name).write_text(text)
    proxy = _PROXY.format(
        pipeline=_PIPELINE,
        filters=_FILTERS,
        region=REGION,
        domain=STORAGE_DOMAIN,
        user=ACCESS_KEY.replace(":", "_"),
        secret=SECRET_KEY,
    )
    for name, lines in options.items():
        proxy = proxy.replace(f"[filter:{name}]\n", f"[filter:{name}]\n{lines}\n")
    plain = "".join(
        f"\n[filter:{name}]\nuse = egg:swift#{name}\n" for name in _PIPELINE.split() if name not in _CONFIGURED
    )
    configuration_of(directory, "proxy").write_text(default + proxy + plain)


def configuration_of(directory: Path, server: str) -> Path:
    """The configuration file of a server."""
    return directory / f"{server}-server.conf"


def ring_of(directory: Path, backend: str) -> Path:
    """The ring file of a backend."""
    return directory / f"{backend}.ring.gz"


def _escaped(directory: Path) -> str:
    return str(directory).replace("%", "%%")  # paste.deploy interpolates
