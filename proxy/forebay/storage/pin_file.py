"""The file of pins: keeps the pinned prefixes of this node across restarts, for every worker.

    {"version": 1, "pins": [{"bucket": ..., "prefix": ..., "since": ..., "objects": ..., "size": ...}, ...]}

Replaced as a whole, so that a reader sees the old pins or the new ones. A damaged file counts as empty: pinned objects
are then kept as all others are.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from forebay.policy.pins import Pin
from forebay.storage.durable_files import replace_file

VERSION: Final = 1

_log = logging.getLogger(__name__)


class PinFile:
    """The pins in a file. `path`: None if there is no directory to keep it in."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def load(self) -> tuple[Pin, ...]:
        """Returns the pins; none if the file is missing or damaged, which is logged."""
        try:
            content = self.path.read_bytes() if self.path is not None else None
        except FileNotFoundError:
            return ()
        except OSError as error:
            _log.error("pins: %s can't be read, nothing is pinned: %s", self.path, error.strerror)
            return ()
        try:
            return _decode(json.loads(content)) if content is not None else ()
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            _log.error("pins: %s is damaged, nothing is pinned: %r", self.path, error)
            return ()

    def save(self, pins: Iterable[Pin]) -> None:
        """Replaces the pins. Raises OSError."""
        if self.path is not None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            document = {"version": VERSION, "pins": [asdict(pin) for pin in pins]}
            replace_file(self.path, json.dumps(document).encode())


def _decode(document: Any) -> tuple[Pin, ...]:
    if document["version"] != VERSION or not isinstance(document["pins"], list):
        raise ValueError("another version")
    return tuple(_pin(**each) for each in document["pins"])


def _pin(bucket: object, prefix: object, since: Any, objects: Any, size: Any) -> Pin:
    if not isinstance(bucket, str) or not isinstance(prefix, str):
        raise TypeError("a name is text")
    return Pin(
        bucket, prefix, float(since), None if objects is None else int(objects), None if size is None else int(size)
    )
