"""What a plan may do, as its runner asks anew at each step: by the grants and rules in force."""

from collections.abc import Callable
from dataclasses import dataclass

from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a plan may do at this moment, by the policy in force."""

    permits: Callable[[ObjectName], bool]
    """Whether its principal may read an object."""
    identity: OriginIdentity | None
    """Whose credential its requests to the origin carry."""
    horizon: Callable[[ObjectName], int]
    """Bytes that may be ahead, by the rule of an object and what other plans have."""
    data_set: Callable[[ObjectName], str]
    """The data set of an object."""
