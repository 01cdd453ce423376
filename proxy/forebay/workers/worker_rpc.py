"""The calls of the supervisor to a worker, as a typed interface over the worker's socket (server.rpc.rpc_server).

A method of an interface (the verbs of server.admin.control, `CacheView`, `WorkerRpc`, `WorkerOrders`) is called by
`call(peer, JobVerbs.jobs)`: its qualified name is the document's kind, its arguments and its result are JSON by their
annotations (peers.json_codec). A `client_stub` has all methods of an interface, and calls so. Both ends
run the same version of Forebay, so the documents may change with it; only `start` is read by another version, to refuse
it.

It imports no module of a worker, which the supervisor starts without.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, get_type_hints

from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.json_codec import from_json, to_json
from forebay.peers.peer_client import Peer
from forebay.peers.peer_codec import decode
from forebay.server.admin.schema.pin_schema import PinChange
from forebay.server.admin.schema.stats_schema import Stats
from forebay.settings.addresses import ListenAddress
from forebay.storage.run_record import NodeRun

P = ParamSpec("P")
T = TypeVar("T")

START = "start"
"""The kind of a StartRequest, with the supervisor's version beside it. Answered when the worker serves."""


@dataclass(frozen=True, slots=True)
class StartRequest:
    """The configuration that a worker is to serve. It is sent over the socket, so that no secret is on a command
    line."""

    text: str | None
    """The configuration's text in force, and the mode of its file."""
    mode: int
    first_text: str | None
    """The text that the node was started with: what needs a restart of the node is as it says there, in a worker that
    is started later as well. So all workers have the same origin for a bucket."""
    first_mode: int
    file: str | None
    flags: Mapping[str, Any]
    listen: ListenAddress
    tls_listen: ListenAddress | None
    socket_fd: int | None
    """The descriptor of the listening Unix socket, which the worker has inherited; None: there is none."""
    sizes: Mapping[TierName, int]
    """Capacities set over the configured ones, one worker's share."""
    run: NodeRun
    """The run of the node, the same for all workers that it ever starts."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The counters of a worker, as the supervisor polls them."""

    metrics: str
    """Prometheus text."""
    stats: Stats
    amplification: Mapping[str, tuple[int, int]]
    """The bytes fetched and the bytes delivered from flights, by rule."""


@dataclass(frozen=True, slots=True)
class ConfigRefusal:
    """A SettingsError: see there."""

    where: str
    value: str
    allowed: str


class WorkerRpc(Protocol):
    """The calls of the supervisor to one running worker, beside the admin port's verbs and `CacheView`."""

    async def report(self) -> WorkerReport:
        """The worker's counters and gauges."""
        ...

    async def prepare_config(self, text: str | None, mode: int) -> ConfigRefusal | None:
        """Validates a configuration, and keeps it for `WorkerOrders.commit_config`."""
        ...

    async def change_pins(self, bucket: str, prefix: str, is_pinned: bool) -> PinChange:
        """Pins or unpins a prefix in this worker, and in the file that the others read."""
        ...

    async def invalidate(self, names: list[ObjectName]) -> None:
        """Drops these objects in all workers."""
        ...


class WorkerOrders(Protocol):
    """The calls that the supervisor makes to all workers of the node."""

    async def commit_config(self) -> None:
        """Puts the prepared configuration in force, if there is one."""
        ...

    async def announce_shutdown(self) -> None:
        """Makes readiness fail while requests are still served."""
        ...

    async def reopen_files(self) -> None:
        """Opens the access log anew and reads the TLS certificate again, as on SIGHUP."""
        ...

    async def resize_tier(self, tier: TierName, capacity: int) -> None:
        """Sets a tier's capacity, in bytes of this worker's share."""
        ...

    async def load_pins(self) -> None:
        """Takes the pins from the file."""
        ...


async def call(peer: Peer, method: Callable[Concatenate[Any, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls a method of a worker. Raises PeerUnavailable, and the errors of the method."""
    answer = await peer.call(request_document(method, *args, **kwargs))
    result: T = decode(lambda: from_json(get_type_hints(method)["return"], answer["result"]))
    return result


def request_document(
    method: Callable[Concatenate[Any, P], Awaitable[object]], *args: P.args, **kwargs: P.kwargs
) -> Document:
    """The document that calls a method. Arguments that are left out are sent as the interface declares them."""
    bound = inspect.signature(method).bind(None, *args, **kwargs)
    bound.apply_defaults()
    return {"kind": method.__qualname__, "arguments": [to_json(each) for each in bound.args[1:]]}


def rpc_handlers(interface: object, implementation: object) -> dict[str, Callable[[Document], Awaitable[Document]]]:
    """The handlers of an interface's methods, by kind, for a server that calls `implementation`."""
    return {method.__qualname__: _handler(method, implementation) for method in _methods(interface)}


def client_stub(interface: Callable[..., T], send: Callable[..., Awaitable[Any]]) -> T:
    """Has the methods of an interface. `send` is called with the one that was called and its arguments, and its result
    is returned."""
    methods = {method.__name__: _stub_method(method, send) for method in _methods(interface)}
    stub: T = type(f"Stub{interface.__name__}", (), methods)()
    return stub


def _methods(interface: object) -> list[Callable[..., Awaitable[object]]]:
    return [method for _, method in inspect.getmembers(interface, inspect.iscoroutinefunction)]


def _stub_method(method: Callable[..., object], send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def forward(_: object, *args: object, **kwargs: object) -> object:
        return await send(method, *args, **kwargs)

    return forward


def _handler(method: Callable[..., object], implementation: object) -> Callable[[Document], Awaitable[Document]]:
    hints = get_type_hints(method)
    kinds = [hint for name, hint in hints.items() if name != "return"]

    async def handle(document: Document) -> Document:
        documents = document["arguments"]
        arguments = decode(lambda: [from_json(kind, each) for kind, each in zip(kinds, documents, strict=True)])
        return {"result": to_json(await getattr(implementation, method.__name__)(*arguments))}

    return handle
