"""The watch over the origin: whether it can be reached, and whether it accepts Forebay's own credential.

Forebay's own requests find out (forebay.origin.reachability, forebay.origin.credential_check): at the start and then
regularly, also while no client asks for anything.
"""

import asyncio
import logging

from forebay.origin.origin_client import OriginClient
from forebay.settings.model import Settings
from forebay.settings.own_credential import needs_own_credential, shared_key_warning

_log = logging.getLogger(__name__)


class OriginWatch:
    """Watches one worker's origin client."""

    def __init__(self, origin: OriginClient) -> None:
        self._origin = origin
        self._warned_of: str | None = None
        self.first_look = asyncio.Event()
        """Set once the origin has been looked at."""

    async def look(self, settings: Settings) -> None:
        """Check what is due. `settings`: in force."""
        check = self._origin.credential_check
        if await self._origin.probe() and needs_own_credential(settings):
            await check.check_if_due()
            self._warn_of_shared_key(settings, check.access_key)
        self.first_look.set()

    def _warn_of_shared_key(self, settings: Settings, access_key: str | None) -> None:
        warning = shared_key_warning(settings, access_key)
        if warning is not None and access_key != self._warned_of:
            self._warned_of = access_key
            _log.warning("%s", warning)
