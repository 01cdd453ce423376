"""The clients of data sets: the default one, one by the arguments of the connectors, and one for plans.

Plans are sent with the client of the data set, or with one for its endpoint:

the library's data sets     their `client`
s3torchconnector            its endpoint and region; the credentials are those of the environment
osstorchconnector           its endpoint and region, signed as OSS; credentials of its file or its provider
every other                 a client of the environment; keys that are URIs with oss:// are OSS's
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebay_client.object_uri import dialect_of

if TYPE_CHECKING:
    from forebay_client.client import Client


def client_for(dataset: Any) -> "Client":
    """A client for the plans of `dataset`. Raises ClientConfigurationError if the environment configures none."""
    from forebay_client.client import Client  # noqa: PLC0415 # only where a plan is sent

    while True:
        own = getattr(dataset, "client", None)
        if isinstance(own, Client):
            return own
        inner = getattr(dataset, "dataset", None)
        if inner is None:
            several = getattr(dataset, "datasets", None)
            inner = several[0] if isinstance(several, list) and several else None
        if inner is None:
            break
        dataset = inner
    module = type(dataset).__module__
    if module.startswith("s3torchconnector."):
        return Client(getattr(dataset, "endpoint", None), region=getattr(dataset, "region", None), **PATIENCE)
    if module.startswith("osstorchconnector."):
        return oss_client(
            dataset._endpoint,  # noqa: SLF001 # it has no public way
            cred_path=dataset._cred_path,  # noqa: SLF001 # as above
            cred_provider=dataset._cred_provider,  # noqa: SLF001 # as above
            region=dataset._region,  # noqa: SLF001 # as above
            **PATIENCE,
        )
    return Client(dialect=dialect_of(_first_name(dataset)), **PATIENCE)


def _first_name(dataset: Any) -> str:
    """The first key of a data set, which may be a URI; empty if it has none."""
    for name in ("keys", "samples", "imgs"):
        names = getattr(dataset, name, None)
        if isinstance(names, Sequence) and names:
            first = names[0][0] if isinstance(names[0], tuple | list) else names[0]
            return first if isinstance(first, str) else ""
    return ""


PATIENCE: dict[str, Any] = {"timeout": 10.0, "retries": 1}
"""The settings of a client that only sends plans, for which the training waits."""


def default_client(uri: str = "") -> "Client":
    """A client of the environment, for what `uri` names: with `oss://` in OSS's protocol, and with the credentials and
    the endpoint of OSS_ACCESS_KEY_ID, OSS_ENDPOINT, ... before those of AWS. Raises ClientConfigurationError."""
    from forebay_client.client import Client  # noqa: PLC0415 # as above

    return Client(dialect=dialect_of(uri))


def s3_client(region: str | None, endpoint: str | None, config: Any = None) -> "Client":
    """A client with the arguments of s3torchconnector; `config`: its S3ClientConfig."""
    from forebay_client.client import Client  # noqa: PLC0415 # as above

    options: dict[str, Any] = {}
    if config is not None:
        options["profile"] = getattr(config, "profile", None)
        options["retries"] = max(0, getattr(config, "max_attempts", 5) - 1)
        if getattr(config, "unsigned", False):
            options["access_key"] = ""
    return Client(endpoint, region=region, **options)


def oss_client(
    endpoint: str, *, cred_path: str = "", cred_provider: Any = None, region: str = "", **options: Any
) -> "Client":
    """A client with the arguments of osstorchconnector: a JSON file of credentials, or a provider of them."""
    from forebay_client.client import Client  # noqa: PLC0415 # as above

    credentials: dict[str, Any] = {}
    if cred_provider is not None:
        found = cred_provider.get_credentials()
        credentials = {
            "access_key": found.access_key_id,
            "secret_key": found.access_key_secret,
            "session_token": getattr(found, "security_token", None) or None,
        }
    elif cred_path:
        stored = json.loads(Path(cred_path).read_text(encoding="utf-8"))
        credentials = {
            "access_key": stored["AccessKeyId"],
            "secret_key": stored["AccessKeySecret"],
            "session_token": stored.get("SecurityToken") or None,
        }
    url = endpoint if "://" in endpoint else f"https://{endpoint}"
    return Client(url, region=region or None, dialect="oss", **credentials, **options)
