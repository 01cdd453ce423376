"""Names that lead to this machine, for one process and what it starts: the machine itself learns nothing of them.

Some clients speak to BUCKET.ENDPOINT and to nothing else. On the way to Alibaba that is a name of its name servers;
here it stands in a copy of /etc/hosts that the process finds in the place of the real one, in a mount namespace of its
own. Which takes root, and a container that allows it.
"""

import asyncio
import os
import random
import shutil
import subprocess
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

DOMAIN: Final = "forebay.test"
"""Of a top-level domain that belongs to nobody (RFC 6761)."""
CNAME: Final = f"cname.{DOMAIN}"
"""Stands for the bucket of the errand."""
TELLING: Final = "oss-cn-hangzhou-forebay.aliyuncs.com"
"""A name by which osstorchconnector knows its region, as long as no port stands behind it."""
# What a client leaves in /run (osstorchconnector makes a folder there) goes with the namespace.
_ENTER: Final = 'mount --bind "$1" /etc/hosts && mount -t tmpfs none /run && shift && exec "$@"'


@cache
def missing() -> str | None:
    """Why there can be no names, or None when there can."""
    if os.geteuid() != 0:
        return "giving a client names of its own takes root"
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--mount", "true"], capture_output=True, check=False).returncode:
        return "mount namespaces are not allowed here"
    return None


def with_names(command: list[str], names: Iterable[str], directory: Path, address: str = "127.0.0.1") -> list[str]:
    """`command`, where `names` are `address`. `directory` keeps the file."""
    hosts = directory / "hosts"
    real = Path("/etc/hosts").read_text(encoding="utf-8")
    hosts.write_text(f"{real}\n{address} {' '.join(names)}\n", encoding="utf-8")
    return ["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(hosts), *command]


@asynccontextmanager
async def at_port_80(port: int) -> AsyncIterator[str]:
    """An address of this machine whose port 80 leads to `port` of 127.0.0.1: for names that come without a port."""

    async def relay(reader: StreamReader, writer: StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, inner_writer))
            group.create_task(_pump(inner_reader, writer))

    # Of the 16 million that are loopback, one that nobody else will have.
    address = ".".join(["127", *(str(random.randrange(64, 250)) for _ in range(3))])  # no secret
    server = await asyncio.start_server(relay, address, 80)
    try:
        yield address
    finally:
        server.close()
        await server.wait_closed()


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
