"""Lets others have their turn of the loop between two stretches of long work (forebay.core.cooperative)."""

import asyncio

from forebay.core.cooperative import Result, Stretches


async def in_turns(work: Stretches[Result]) -> Result:
    """What comes of it. Raises what it raises; nothing goes on if the awaiting task is cancelled."""
    try:
        while True:
            next(work)
            await asyncio.sleep(0)
    except StopIteration as done:
        result: Result = done.value
        return result
    finally:
        work.close()
