"""Imports for a process from which others are forked: what such a child imports by itself, each one imports again."""

import importlib
import pkgutil

import forebay
from forebay.server.startup import import_aiohttp


def import_forebay() -> None:
    """Imports every module of the proxy, also those that a worker imports only when its configuration needs them, and
    the modules of Python's that are imported when they are first used."""
    import_aiohttp()
    for module in pkgutil.walk_packages(forebay.__path__, "forebay."):
        importlib.import_module(module.name)
    for name in ("_strptime", "encodings.idna"):
        importlib.import_module(name)
