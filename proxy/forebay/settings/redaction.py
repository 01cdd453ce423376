"""The second look for secrets before a configuration leaves by the admin port.

A Control gives the configuration with its secrets already redacted. A setting that is added later and forgotten there
must still not leak, so what has the name of a secret is covered here once more. A name that says where a secret is kept
(`secret_env`, `token_file`) isn't one.
"""

import re
from collections.abc import Mapping
from typing import Final

REDACTED: Final = "(redacted)"

_SECRET: Final = re.compile(r"secret|token|password|passphrase|private_key|credential", re.IGNORECASE)
_WHEREABOUTS: Final = re.compile(r"_(env|file|profile)$", re.IGNORECASE)


def names_a_secret(where: str) -> bool:
    """Whether what stands at this path (`auth.keys[0].secret`) may be a secret.

    Judged by the last name of the path. `secret_env` counts as well: whoever writes the secret itself there by mistake
    gets an error about it, and that must not repeat it.
    """
    return _SECRET.search(where.rpartition(".")[2]) is not None


def redacted(document: object) -> object:
    """The same document with whatever has the name of a secret covered. What is empty or absent stays so."""
    if isinstance(document, Mapping):
        return {name: _cover(str(name), value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [redacted(value) for value in document]
    return document


def _cover(name: str, value: object) -> object:
    if _SECRET.search(name) and not _WHEREABOUTS.search(name) and isinstance(value, str | bytes) and value:
        return REDACTED
    return redacted(value)
