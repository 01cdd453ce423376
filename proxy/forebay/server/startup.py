"""The startup of a serving process: the garbage collector pauses meanwhile, and freezes the long-lived objects.

    pause_collector ──> imports ──> parts are made, sockets listen ──> freeze_long_lived ──> serving

- While a process starts, the collector would scan what has just been imported again and again, and find nothing.
- A cache is millions of small objects that stay. A full collection scans all of them while the loop stands still: a
  quarter of a second with 40,000 objects cached, seconds with a million. So whatever outlives a full collection is
  frozen, and full collections come early: each scans the few thousand objects made since the last one, some
  milliseconds.
- A frozen object is freed like any other when nothing refers to it; only a cycle of frozen objects is never freed. So
  no long-lived object may end as a cycle, first of all no connection. A test holds that: requests of all kinds leave
  no cycles. It is true under uvloop; asyncio's own transports are cycles, so nothing is frozen there.
- aiohttp is imported without the system's certificates. It makes two TLS contexts while it is imported, each of which
  reads all of them, 20 ms each, and neither is used here: an origin over TLS gets a context of its own
  (forebay.origin.http.http_connection). If one were used all the same it would trust nobody.

Not for libraries or tests: all of this changes the whole process. Imports next to nothing, as it runs before all else.

https://docs.python.org/3/library/gc.html#gc.freeze
"""

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

_CERTIFICATES_VARIABLE: Final = "SSL_CERT_FILE"
"""The variable with the file that OpenSSL reads certificates from first:
https://docs.openssl.org/3.0/man3/SSL_CTX_load_verify_locations/"""
_FULL_GENERATION: Final = 2
_MIDDLE_COLLECTIONS: Final = 1
"""Collections of the middle generation between two full ones; Python's default is 10."""


def pause_collector() -> None:
    """Turns the collector off until `freeze_long_lived`."""
    gc.disable()


def import_aiohttp() -> None:
    """Imports aiohttp before anything else does, and while no other thread reads the environment."""
    with _without_certificates():
        import aiohttp  # noqa: F401, PLC0415 # see the module


def freeze_long_lived(loop: object) -> None:
    """Freezes what exists now and, from now on, what outlives a full collection, in the process that this loop serves.

    The collector is on afterwards.
    """
    if any(kind.__module__.startswith("uvloop") for kind in type(loop).__mro__):  # ours is a subclass (event_loop)
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _MIDDLE_COLLECTIONS)
        gc.freeze()  # with the cycles that importing has left, some 2,000 objects: to find them would take 30 ms
        if _freeze_survivors not in gc.callbacks:
            gc.callbacks.append(_freeze_survivors)
    gc.enable()  # not before freezing: it would scan everything


def _freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == _FULL_GENERATION:
        gc.freeze()


@contextmanager
def _without_certificates() -> Iterator[None]:
    before = os.environ.get(_CERTIFICATES_VARIABLE)
    os.environ[_CERTIFICATES_VARIABLE] = os.devnull
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CERTIFICATES_VARIABLE]
        else:
            os.environ[_CERTIFICATES_VARIABLE] = before
