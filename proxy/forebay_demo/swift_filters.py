"""Plug-ins of Swift: WSGI filters for its pipeline, and a log handler. They run inside the origin's process.

Named by `paste.filter_factory` and `log_custom_handlers` in the files that forebay_demo.swift_layout writes.
"""

import json
import logging
import sys
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Environ: TypeAlias = dict[str, Any]
StartResponse: TypeAlias = Callable[..., Any]
App: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]
FilterFactory: TypeAlias = Callable[[App], App]

COUNTS_PATH = "/.counts"


class DictCache:
    """A dict with the interface of Swift's memcache client.

    Without a cache each request goes to the account and the container server, which more than doubles the time of a
    small GET.
    """

    def __init__(self, now: Callable[[], float] = clock.time, most: int = 10_000) -> None:
        self._now = now
        self._most = most
        self._values: dict[str, tuple[float, object]] = {}

    def get(self, key: str, raise_on_error: bool = False) -> object:
        """The value, or None if it is absent or expired."""
        expires, value = self._values.get(key, (0.0, None))
        if expires and expires <= self._now():
            del self._values[key]
            return None
        return value

    def set(self, key: str, value: object, serialize: bool = True, time: float = 0, **_: object) -> None:
        """Stores a value for `time` seconds; 0 means no expiry."""
        if len(self._values) >= self._most:
            self._values.clear()  # an empty cache is always correct
        # The memcache protocol: up to thirty days is a duration, 0 means no expiry.
        self._values[key] = (self._now() + time if time else 0.0, value)

    def delete(self, key: str, server_key: str | None = None) -> None:
        """Removes a value."""
        self._values.pop(key, None)

    def incr(self, key: str, delta: int = 1, time: float = 0) -> int:
        """Adds `delta` to a counter and returns it; never below 0."""
        before = self.get(key)
        after = max(0, (before if isinstance(before, int) else 0) + delta)
        self.set(key, after, time=time)
        return after

    def decr(self, key: str, delta: int = 1, time: float = 0) -> int:
        """Subtracts `delta` from a counter and returns it."""
        return self.incr(key, -delta, time)

    def get_multi(self, keys: Iterable[str], server_key: str) -> list[object]:
        """The values of several keys, None for absent ones."""
        return [self.get(key) for key in keys]

    def set_multi(
        self, mapping: Mapping[str, object], server_key: str, serialize: bool = True, time: float = 0
    ) -> None:
        """Stores several values."""
        for key, value in mapping.items():
            self.set(key, value, time=time)


class CacheFilter:
    """Puts one DictCache into every request, under the name that Swift expects."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._memory = DictCache()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handles one request."""
        environ["swift.cache"] = self._memory
        return self._app(environ, start_response)


class CountingFilter:
    """Counts requests and body bytes sent, by bucket and method, of all clients.

    GET /.counts returns {bucket: {method: [requests, bytes]}}; service-level requests are under the empty name.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._seen: dict[str, dict[str, list[int]]] = {}

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handles one request, or returns the counts."""
        path = str(environ["PATH_INFO"])
        if path == COUNTS_PATH:
            body = json.dumps(self._seen).encode()
            start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
            return [body]
        bucket = path.split("/", 2)[1] if path.startswith("/") else ""
        count = self._seen.setdefault(bucket, {}).setdefault(str(environ["REQUEST_METHOD"]), [0, 0])
        count[0] += 1
        return _counted(self._app(environ, start_response), count)


def _counted(body: Iterable[bytes], count: list[int]) -> Iterator[bytes]:
    try:
        for piece in body:
            count[1] += len(piece)
            yield piece
    finally:
        close = getattr(body, "close", None)
        if close is not None:  # WSGI: whoever wraps a body passes close() on
            close()


def cache_filter(_global: object, **_local: object) -> FilterFactory:
    """The factory of CacheFilter, for the pipeline."""
    return CacheFilter


def counting_filter(_global: object, **_local: object) -> FilterFactory:
    """The factory of CountingFilter, for the pipeline."""
    return CountingFilter


def log_to_stderr(
    _conf: object, _name: object, _console: object, _route: object, fmt: str, logger: logging.Logger, _adapted: object
) -> None:
    """Swift logs to syslog only; an embedded origin logs to a file of its own, and leaves the machine's log alone."""
    handler = logging.StreamHandler(sys.__stderr__)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s " + fmt))
    logger.handlers[:] = [handler]
