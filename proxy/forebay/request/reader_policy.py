"""The reader policy: the rules, grants and credentials that readers of recordings have under the policy in force."""

from collections.abc import Callable

from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.rules import Rules
from forebay.request.admission import GatewayPolicy


class PolicyInForce:
    """Implements forebay.jobs.recordings.kept_recordings.ReaderPolicy. `policy` returns the one in force."""

    def __init__(self, policy: Callable[[], GatewayPolicy]) -> None:
        self._policy = policy

    def rules(self) -> Rules:
        """The rules."""
        return self._policy().rules

    def identity(self, principal: str) -> OriginIdentity | None:
        """Whose credential is sent to the origin for the principal; None: Forebay's own."""
        return self._policy().keyring.origin_identities.get(principal)
