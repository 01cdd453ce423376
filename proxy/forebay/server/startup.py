"""What a process that will serve does before it imports what it is made of, so that it serves sooner.

- Python's collector of cycles rests: it would look through what has just been imported again and again, and find
  nothing. forebay.server.gc_freeze wakes it.
- aiohttp is imported without the system's certificates. It makes two TLS contexts while it is imported, each of which
  reads all of them, 20 ms each, and neither is used here: who asks an origin over TLS makes a context of its own
  (forebay.origin.http.http_connection). If one were used all the same it would trust nobody.

Not for libraries or tests: it is of the whole process.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_CERTIFICATES_VARIABLE: Final = "SSL_CERT_FILE"
"""Where OpenSSL looks for them first: https://docs.openssl.org/3.0/man3/SSL_CTX_load_verify_locations/"""


def pause_collector() -> None:
    """Until forebay.server.gc_freeze wakes it."""
    gc.disable()


def import_aiohttp() -> None:
    """Before anything else imports it, and while no other thread reads the environment."""
    with _without_certificates():
        import aiohttp  # noqa: F401, PLC0415 # see the module


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
