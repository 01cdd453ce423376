"""The client library and, in `cli`, the command `forebay`.

    from forebay_client import Client

Names are imported when they are first used: an import of the package alone imports nothing else, not even typing. The
command imports it before it can handle an interrupt (forebay_client.cli.main).
"""

TYPE_CHECKING = False
"""True to type checkers, by its name."""

if TYPE_CHECKING:
    from typing import Any

    from forebay_client.async_client import AsyncClient
    from forebay_client.client import Client
    from forebay_client.client_errors import (
        AccessDenied,
        BodyCorrupt,
        ClientConfigurationError,
        ClientError,
        ConditionNotMet,
        InvalidRequest,
        ObjectNotFound,
        RangeNotSatisfiable,
        ServiceUnavailable,
    )
    from forebay_client.client_stats import ClientCounts
    from forebay_client.forebay_resources import PlanHandle, WarmHandle
    from forebay_client.local_path import LocalPath, path
    from forebay_client.object_file import ObjectFile
    from forebay_client.objects import BatchItem, BatchKey, CommonPrefix, ObjectInfo

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "AsyncClient",
    "BatchItem",
    "BatchKey",
    "BodyCorrupt",
    "Client",
    "ClientConfigurationError",
    "ClientCounts",
    "ClientError",
    "CommonPrefix",
    "ConditionNotMet",
    "InvalidRequest",
    "LocalPath",
    "ObjectFile",
    "ObjectInfo",
    "ObjectNotFound",
    "PlanHandle",
    "RangeNotSatisfiable",
    "ServiceUnavailable",
    "WarmHandle",
    "path",
]

_HOMES = {
    "async_client": ("AsyncClient",),
    "client": ("Client",),
    "client_stats": ("ClientCounts",),
    "forebay_resources": ("PlanHandle", "WarmHandle"),
    "local_path": ("LocalPath", "path"),
    "object_file": ("ObjectFile",),
    "objects": ("BatchItem", "BatchKey", "CommonPrefix", "ObjectInfo"),
    "client_errors": (
        "AccessDenied",
        "BodyCorrupt",
        "ClientConfigurationError",
        "ClientError",
        "ConditionNotMet",
        "InvalidRequest",
        "ObjectNotFound",
        "RangeNotSatisfiable",
        "ServiceUnavailable",
    ),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> "Any":
    """Imports a public name when it is first used (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 # an import of the package alone imports nothing

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
