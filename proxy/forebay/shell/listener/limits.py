"""What a connection is allowed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Times in seconds, sizes in bytes."""

    header_size: int
    connections: int
    header_timeout: float
    idle_timeout: float
    lingering: float = 2.0
    """How long the rest of a refused body is read and dropped, so that the client reads the refusal and no reset."""
    stall: float = 60.0
    """How long a client may take no byte of what the fast lane wrote."""
