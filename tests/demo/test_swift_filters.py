"""What is plugged into Swift: the stand-in for memcache, and the origin's own count."""

import json
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from forebay_demo.swift_filters import COUNTS_PATH, CacheFilter, CountingFilter, DictCache


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_value_is_there_until_its_time_is_over() -> None:
    clock = Clock()
    memory = DictCache(clock)
    memory.set("short", 1, time=60)
    memory.set("for ever", 2)
    clock.now += 59.9
    assert memory.get("short") == 1
    clock.now += 0.1
    assert memory.get("short") is None
    assert memory.get("for ever") == 2


def test_deleted_is_gone_and_deleting_twice_is_fine() -> None:
    memory = DictCache()
    memory.set("k", "v")
    memory.delete("k")
    memory.delete("k")
    assert memory.get("k") is None


def test_counting_starts_at_nothing_and_never_goes_below() -> None:
    memory = DictCache()
    assert [memory.incr("n"), memory.incr("n", 5), memory.decr("n", 2), memory.decr("n", 9)] == [1, 6, 4, 0]


def test_many_at_once() -> None:
    memory = DictCache()
    memory.set_multi({"a": 1, "b": 2}, "server", time=60)
    assert memory.get_multi(["a", "b", "c"], "server") == [1, 2, None]


def test_memory_is_bounded() -> None:
    memory = DictCache(most=10)
    for number in range(25):
        memory.set(str(number), number)
    assert sum(memory.get(str(number)) is not None for number in range(25)) <= 10
    assert memory.get("24") == 24


def test_every_request_gets_the_same_memory() -> None:
    seen = []

    def app(environ: dict[str, Any], _start: object) -> Iterable[bytes]:
        seen.append(environ["swift.cache"])
        return []

    remembering = CacheFilter(app)
    remembering({}, print)
    remembering({}, print)
    assert seen[0] is seen[1]


class Body:
    """A body that knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield b"four"
        yield b"five!"

    def close(self) -> None:
        self.closed = True


def tally(app: CountingFilter) -> Any:
    return json.loads(b"".join(app({"REQUEST_METHOD": "GET", "PATH_INFO": COUNTS_PATH}, lambda *_: None)))


def test_requests_and_bytes_are_counted_by_bucket_and_method() -> None:
    app = CountingFilter(lambda _environ, _start: Body())
    for method, path in [("GET", "/b/k"), ("GET", "/b"), ("PUT", "/b/k"), ("GET", "/")]:
        list(app({"REQUEST_METHOD": method, "PATH_INFO": path}, print))
    assert tally(app) == {"b": {"GET": [2, 18], "PUT": [1, 9]}, "": {"GET": [1, 9]}}


def test_a_body_that_is_left_early_counts_what_was_sent_and_is_closed() -> None:
    body = Body()
    app = CountingFilter(lambda _environ, _start: body)
    sent = app({"REQUEST_METHOD": "GET", "PATH_INFO": "/b/k"}, print)
    assert isinstance(sent, Generator)
    next(sent)
    sent.close()
    assert body.closed
    assert tally(app) == {"b": {"GET": [1, 4]}}
