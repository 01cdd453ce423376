"""The file of pins: keeps the pinned prefixes of this node across restarts, for every worker.

    {"version": 1, "pins": [{"bucket": ..., "prefix": ..., "since": ..., "objects": ..., "size": ...}, ...]}

Replaced as a whole, so that a reader sees the old pins or the new ones. A damaged file counts as empty: pinned objects
are then kept as all others are. It stays until other pins are set, and then beside them, as `NAME.damaged`.
"""

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from forebay.policy.pins import Pin
from forebay.storage.durable_files import make_directory, replace_file

VERSION: Final = 1

_log = logging.getLogger(__name__)


class PinFile:
    """The pins in a file. `path`: None if there is no directory to keep it in."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._is_unread = False
        """Whether the file has pins, perhaps, that were not found."""

    def load(self) -> tuple[Pin, ...]:
        """Returns the pins; none if the file is missing or damaged, which is logged."""
        found: tuple[Pin, ...] = ()
        self._is_unread = True
        try:
            found = _decode(json.loads(self.path.read_bytes())) if self.path is not None else ()
            self._is_unread = False
        except FileNotFoundError:
            self._is_unread = False
        except OSError as error:
            _log.error("pins: %s can't be read, nothing is pinned: %s", self.path, error.strerror)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            _log.error("pins: %s is damaged, nothing is pinned: %r", self.path, error)
        return found

    def save(self, pins: Iterable[Pin]) -> None:
        """Replaces the pins. Raises OSError."""
        if self.path is not None:
            make_directory(self.path.parent)
            if self._is_unread:
                with suppress(FileNotFoundError):
                    self.path.replace(self.path.with_name(f"{self.path.name}.damaged"))
                self._is_unread = False
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
