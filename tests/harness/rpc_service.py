"""A peer service of given streaming methods, for tests of what is below it."""

from typing import Any

from forebay.server.rpc.peer_service import PeerService
from forebay.server.rpc.rpc_methods import RpcMethods, Streaming
from forebay.server.rpc.write_methods import WriteMethods


def streaming_service(**streaming: Streaming) -> PeerService:
    """Answers these kinds of calls, and ends with links on which nothing was written."""
    nothing: Any = None
    writes = WriteMethods(nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    return PeerService(writes, RpcMethods(streaming=streaming))
