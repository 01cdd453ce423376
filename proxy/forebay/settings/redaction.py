"""Redacts secrets by name: the second line of defence before a configuration leaves by the admin port.

The effective configuration is redacted by type already. This pass by name covers a setting that is added later without
the type. Names of the source of a secret (`secret_env`, `token_file`) are not redacted.
"""

import re
from collections.abc import Mapping
from typing import Final

REDACTED: Final = "(redacted)"

_SECRET: Final = re.compile(r"secret|token|password|passphrase|private_key|credential", re.IGNORECASE)
_SOURCE: Final = re.compile(r"_(env|file|profile)$", re.IGNORECASE)


def is_secret_name(where: str) -> bool:
    """Whether the value at this path (`auth.keys[0].secret`) may be a secret, by the last name of the path.

    `secret_env` counts too: a secret written there by mistake causes an error, which must not repeat it.
    """
    return _SECRET.search(where.rpartition(".")[2]) is not None


def redact(document: object) -> object:
    """A copy of the document with each value redacted whose name is that of a secret. Empty values stay."""
    if isinstance(document, Mapping):
        return {name: _redact_value(str(name), value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [redact(value) for value in document]
    return document


def _redact_value(name: str, value: object) -> object:
    if _SECRET.search(name) and not _SOURCE.search(name) and isinstance(value, str | bytes) and value:
        return REDACTED
    return redact(value)
