"""The context of a benchmark: its sizes, programs and directory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load.signed_requests import unsigned
from benchmarks.origins.origin import Origin
from benchmarks.run_sizes import RunSizes
from benchmarks.servers.comparison import Comparison
from benchmarks.servers.forebay import Forebay, socket_template
from benchmarks.servers.nginx import running_nginx
from benchmarks.servers.peer import Peer, digests_of
from benchmarks.servers.varnish import running_varnish


@dataclass(frozen=True, slots=True)
class BenchContext:
    """`directory` is the benchmark's own, empty at its start, and thrown away after it."""

    sizes: RunSizes
    directory: Path
    nginx: str | None
    varnish: str | None
    """Paths of the programs, None for those that are not installed."""
    wrk: str | None

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.sizes, self.wrk)

    @property
    def socket(self) -> Path:
        """The Unix socket of `forebay_with_socket`."""
        return self.directory / "forebay.sock"

    def forebay_with_socket(self, origin_port: int) -> Forebay:
        """A Forebay beside its clients, which read through `socket` too."""
        template = socket_template(self.directory)
        return Forebay(self.directory / "forebay", origin_port, memory="2GiB", template=template)

    @contextmanager
    def peers(self, forebay: Forebay, origin: Origin, target: str, hit: str = "hit-memory") -> Iterator[list[Peer]]:
        """Forebay, nginx where there is one, and Varnish where there is one and hits are from memory, in front of the
        same origin."""
        with ExitStack() as stack:
            running = [stack.enter_context(forebay.running(target, hit))]
            if self.nginx is not None:
                running.append(stack.enter_context(running_nginx(self.nginx, origin, self.directory / "nginx")))
            if self.varnish is not None and hit == "hit-memory":
                running.append(stack.enter_context(running_varnish(self.varnish, origin, self.directory / "varnish")))
            yield running


def digests(origin: Origin, prefix: str) -> dict[str, str]:
    """What the objects under `prefix` hash to, by target."""
    targets = origin.targets(prefix)
    return digests_of(origin.port, dict(zip(targets, unsigned(origin.port, targets), strict=True)))
