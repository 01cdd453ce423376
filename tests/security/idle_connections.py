"""Keeps connections open in a process of its own: one process has too few open files for both ends.

python idle_connections.py PORT COUNT     writes "held N" when they are open, and holds them until its input ends
"""

import asyncio
import resource
import sys


async def hold(port: int, count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened = []
    for start in range(0, count, 500):
        batch = [asyncio.open_connection("127.0.0.1", port) for _ in range(min(500, count - start))]
        opened += await asyncio.gather(*batch)
    sys.stdout.write(f"held {len(opened)}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for _, writer in opened:
        writer.transport.abort()


asyncio.run(hold(int(sys.argv[1]), int(sys.argv[2])))
