"""What a connection is allowed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Times in seconds, sizes in bytes."""

    header_size: int
    connections: int
    header_timeout: float
    idle_timeout: float
    lingering: float = 30.0
    """How long the rest of a refused body is read and dropped at most, so that the client reads the refusal, and no
    reset."""
    lingering_pause: float = 5.0
    """How long no byte of it may come."""
    stall: float = 60.0
    """How long a client may take no byte of what the fast lane wrote."""
