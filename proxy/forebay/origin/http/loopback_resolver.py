"""Names to addresses: the system's, but for names under `localhost`, which are the loopback everywhere (RFC 6761, 6.3).

The C library asks DNS for them, which knows none of them. With buckets in the host name (`bucket.localhost`) an origin
on this machine could not be reached.
"""

import socket

from aiohttp import DefaultResolver
from aiohttp.abc import AbstractResolver, ResolveResult


def system_name(host: str) -> str:
    """The name to ask the system for."""
    return "localhost" if host.rstrip(".").lower().endswith(".localhost") else host


class LoopbackResolver(AbstractResolver):
    """The same for aiohttp. To be made inside the running loop, and closed by whoever made it."""

    def __init__(self) -> None:
        self._system: AbstractResolver = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return await self._system.resolve(system_name(host), port, family)

    async def close(self) -> None:
        await self._system.close()
