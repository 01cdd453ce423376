"""A write is invalidated before the origin can have it, and once its outcome is known."""

from typing import Any

from forebay.core.names import Generation, ObjectName
from forebay.write.invalidated_write import InvalidatedWrite

AFFECTED = [ObjectName("bucket", "key")]
KEEP = Generation(b"12345678")


class RecordedInvalidations:
    """In place of the invalidator."""

    def __init__(self) -> None:
        self.done: list[tuple[object, ...]] = []

    def begin_write(self) -> int:
        return 7

    async def invalidate(self, affected: object, keep: object = None, *, write: int | None = None) -> None:
        assert affected is AFFECTED
        self.done.append(("invalidate", keep, write))

    def mark_in_doubt(self, affected: object) -> None:
        assert affected is AFFECTED
        self.done.append(("doubt",))

    def end_write(self, write: int) -> None:
        self.done.append(("end", write))


def a_write() -> tuple[InvalidatedWrite, list[tuple[object, ...]]]:
    recorded: Any = RecordedInvalidations()
    return InvalidatedWrite(recorded, AFFECTED, KEEP), recorded.done


FIRST, SECOND = ("invalidate", KEEP, 7), ("invalidate", KEEP, None)
LAST = ("invalidate", None, None)


async def test_a_settled_write_is_invalidated_twice() -> None:
    write, done = a_write()
    assert await write.begin()
    await write.settle(is_in_doubt=False)
    write.mark_in_doubt()  # the client left while it was answered
    await write.close()
    assert done == [FIRST, SECOND, ("end", 7)]


async def test_a_write_that_the_origin_failed_is_in_doubt_first() -> None:
    write, done = a_write()
    await write.begin()
    await write.settle(is_in_doubt=True)
    await write.close()
    assert done == [FIRST, ("doubt",), SECOND, ("end", 7)]


async def test_a_write_whose_answer_is_lost_is_in_doubt() -> None:
    write, done = a_write()
    await write.begin()
    write.mark_in_doubt()
    await write.close()
    assert done == [FIRST, ("doubt",), LAST, ("end", 7)]


async def test_a_write_that_never_began_invalidates_nothing() -> None:
    write, done = a_write()
    write.mark_in_doubt()
    await write.close()
    assert not write.has_begun
    assert done == [("end", 7)]


async def test_an_answer_before_the_end_of_the_body_settles() -> None:
    write, done = a_write()
    await write.settle(is_in_doubt=False)
    assert not await write.begin()
    await write.close()
    assert not write.has_begun
    assert done == [SECOND, ("end", 7)]
