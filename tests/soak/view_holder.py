"""A client of the library in a process of its own, which is killed while it holds views (SIGKILL).

    PYTHONPATH=client:proxy:tests python -m soak.view_holder ENDPOINT SOCKET SEED

It says `holds` once it holds some. It knows nothing of what was written: each body that it reads has to be of one
version, every cell in its place, and every view stays as it was. Ends with 1 when something was wrong.
"""

import asyncio
import contextlib
import os
import random
import sys
from collections import deque
from itertools import count
from typing import Final

from forebay_client.client_errors import ClientError
from soak.cell_content import CELL, content
from soak.data_bucket import DATA, data_keys
from soak.library_calls import library_client
from soak.write_history import WriteHistory

_HELD: Final = 40


def verify_of_one_version(key: str, view: memoryview) -> None:
    """AssertionError: there are bytes of another version, or in another place."""
    name, version, *_ = bytes(view[:CELL]).split(b"|")
    assert bytes(view) == content(name.decode(), int(version), len(view)), f"{key}: bytes of several versions"


def main() -> None:
    endpoint, socket, seed = sys.argv[1:]
    rng, client = random.Random(seed), library_client(endpoint, socket)
    held: deque[tuple[memoryview, bytes]] = deque(maxlen=_HELD)
    for turn in count():
        with contextlib.suppress(ClientError):
            for item in client.get_many(DATA, rng.sample(data_keys(), 20)):
                if item.data is not None:
                    verify_of_one_version(item.key, item.data)
                    held.append((item.data, bytes(item.data)))
            view = client.get(DATA, key := rng.choice(data_keys()))
            verify_of_one_version(key, view)
            held.append((view, bytes(view)))
        assert all(view == copy for view, copy in held), "a view has changed"
        if held and turn == 2:
            print("holds", flush=True)  # noqa: T201 - it tells its parent


async def hold_and_be_killed(endpoint: str, socket: str, history: WriteHistory, rng: random.Random) -> None:
    """Runs one until it holds views, and kills it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "soak.view_holder",
        endpoint,
        socket,
        str(rng.randrange(1 << 30)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30):
                await process.stdout.readline()
                await asyncio.sleep(rng.random())
    finally:  # also when the soak has found something
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    _, errors = await process.communicate()
    assert process.returncode == -9, errors.decode()
    history.done["clients killed that held views"] += 1


if __name__ == "__main__":
    main()
