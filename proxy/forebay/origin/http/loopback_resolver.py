"""Name resolution by the system, with names under `localhost` as the loopback (RFC 6761, 6.3).

The C library asks DNS for such names, which has none of them: with buckets in the host name (`bucket.localhost`) an
origin on this machine could not be reached.
"""

import socket

from aiohttp import DefaultResolver
from aiohttp.abc import AbstractResolver, ResolveResult


def system_name(host: str) -> str:
    """The name for the system's resolver."""
    return "localhost" if host.rstrip(".").lower().endswith(".localhost") else host


class LoopbackResolver(AbstractResolver):
    """The same for aiohttp. Made inside the running loop; its owner closes it."""

    def __init__(self) -> None:
        self._system: AbstractResolver = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of `host`."""
        return await self._system.resolve(system_name(host), port, family)

    async def close(self) -> None:
        """Closes the system's resolver."""
        await self._system.close()
