"""The context of a benchmark: its sizes, programs and directory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison import Comparison
from benchmarks.forebay import Forebay
from benchmarks.nginx import running_nginx
from benchmarks.origin import Origin
from benchmarks.peer import Peer, digests_of
from benchmarks.run_sizes import RunSizes
from benchmarks.signed_requests import unsigned
from benchmarks.varnish import running_varnish


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
