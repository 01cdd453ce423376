"""The worker context: settings, clocks and registries that the parts of all rooms share. It is made before them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from forebay.core.events import Observe
from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.origin.turns.body_turns import BodyTurns
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from forebay.request.admission import GatewayPolicy
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.model import Settings
from forebay.storage.run_record import NodeRun


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Settings, clocks and registries of one worker, and the policy in force."""

    settings: Settings
    """The settings of this worker: among several workers, its share of those of the node."""
    metrics: Metrics
    peers: Peers
    family: str | None
    """The name that all workers of the node share; None: there is one worker."""
    run: NodeRun | None
    """The run of the node; None: nothing is known of earlier runs."""
    policy: Callable[[], GatewayPolicy]
    """Returns the policy in force. There is one once the gateway is made."""
    rules: Callable[[], Rules]
    """Returns the rules in force. There are some once the gateway is made."""
    clock: Callable[[], float]
    """Seconds since the epoch."""
    timers: Timers
    body_turns: BodyTurns
    buffer_wait: float
    """Seconds that a reader waits for a buffer."""
    tasks: TaskRegistry = field(default_factory=TaskRegistry)
    fences: Fences = field(default_factory=Fences)
    in_doubt_writes: InDoubtWrites = field(default_factory=InDoubtWrites)

    @property
    def observe(self) -> Observe:
        """The observer that counts events."""
        return self.metrics.observe
