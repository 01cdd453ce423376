"""The origin's credentials: a fixed key, the credentials of the AWS SDKs' provider chain, or none.

The chain (environment, profile, SSO, web identity, container, instance) is aiobotocore's, which also refreshes:
https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html. Each use calls it, which
costs nothing until a refresh is due. Its first use imports it on a thread: a worker that starts answers
hits at once, and botocore is 200 modules in 10 MiB of memory.

No secret is logged or raised here.
"""

import asyncio
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from forebay.origin.credential_refusal import missing_credential
from forebay.protocol.signatures.signing_key import SecretKey

if TYPE_CHECKING:
    from aiobotocore.session import AioSession

_NOTHING_FOUND: Final = (
    "no provider of the chain has credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where Forebay starts, "
    "or origin.profile, or origin.access_key"
)
_RETRY_AFTER: Final = 10.0
"""Seconds between attempts at a refresh that failed, while the old credentials are still good, and between two searches
of the chain that found nothing: a search may ask the network."""

_REFRESHED_WITHIN: Final = 900.0
"""Seconds before the end of a key from which botocore refreshes it."""


class Credentials(Protocol):
    """The source of the key for the next request."""

    async def current(self) -> SecretKey | None:
        """The key to sign with; None: don't sign. OriginCredentialFault when there should be a key and is none."""
        ...

    def known(self) -> SecretKey | None:
        """The key to sign with, if it is known without waiting."""
        ...

    def renew(self) -> None:
        """Searches for another key, where there may be one, as the origin refuses this one."""
        ...

    def ends_within(self, seconds: float) -> bool:
        """Whether the key is known to expire within so many seconds, and no other one is there yet."""
        ...

    async def session(self) -> "AioSession":
        """An aiobotocore session that uses the same key, for the operations that botocore does."""
        ...


class StaticCredentials:
    """A key from the configuration; None for public buckets, whose requests are not signed."""

    __slots__ = ("_key",)

    def __init__(self, key: SecretKey | None) -> None:
        self._key = key

    async def current(self) -> SecretKey | None:
        """The fixed key."""
        return self._key

    def known(self) -> SecretKey | None:
        """The fixed key."""
        return self._key

    def renew(self) -> None:
        """A fixed key stays."""

    def ends_within(self, _seconds: float) -> bool:
        """Returns False: the end of a fixed session token is not known."""
        return False

    async def session(self) -> "AioSession":
        """A session with the fixed key."""
        session = await asyncio.to_thread(_session, None)
        if self._key is not None:
            session.set_credentials(self._key.access_key, self._key.secret_key, self._key.session_token)
        return session


ANONYMOUS: Final = StaticCredentials(None)


class FrozenCredentials(Protocol):
    """The fields of aiobotocore's `ReadOnlyCredentials`."""

    @property
    def access_key(self) -> str:
        """The access key id."""
        ...

    @property
    def secret_key(self) -> str:
        """The secret access key."""
        ...

    @property
    def token(self) -> str | None:
        """The session token."""
        ...


class ProviderCredentials(Protocol):
    """A provider's credentials: the part of aiobotocore's `AioCredentials` that is used here."""

    async def get_frozen_credentials(self) -> FrozenCredentials:
        """The credentials, refreshed first when that is due."""
        ...


class CredentialChain:
    """The key that the provider chain finds, refreshed when it is about to expire."""

    def __init__(
        self,
        profile: str | None = None,
        *,
        session: "AioSession | None" = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._profile, self._session = profile, session
        self._is_own_session = session is None
        self._monotonic = monotonic
        self._making = asyncio.Lock()
        self._finding = asyncio.Lock()
        self._found: ProviderCredentials | None = None
        self._key: SecretKey | None = None
        self._not_before = float("-inf")
        self._missing: str | None = None

    async def session(self) -> "AioSession":
        """The session of the chain."""
        async with self._making:
            if self._session is None:
                self._session = await asyncio.to_thread(_session, self._profile)
            return self._session

    async def current(self) -> SecretKey:
        """The key found, refreshed if that is due; the old one if a refresh fails while it is still good."""
        found = self._found
        if found is None:
            found = await self._find()
        elif self._key is not None and self._monotonic() < self._not_before and not _expired(found):
            return self._key
        try:
            frozen = await found.get_frozen_credentials()
        except Exception as failure:
            # A provider may raise anything: files, sockets, JSON. Its message may quote a token, so that only its
            # kind is named.
            if self._key is None or _expired(found):
                raise missing_credential(f"a provider of the chain failed ({type(failure).__name__})") from None
            self._not_before = self._monotonic() + _RETRY_AFTER
            return self._key
        key = SecretKey(frozen.access_key, frozen.secret_key, frozen.token)
        self._key = key
        return key

    def known(self) -> SecretKey | None:
        """The key found, unless a refresh may be due."""
        key, found = self._key, self._found
        return key if key is not None and found is not None and not _expired(found, _REFRESHED_WITHIN) else None

    def renew(self) -> None:
        """Searches the chain again, in files as they are then."""
        self._found = self._key = None
        if self._is_own_session:
            self._session = None

    def ends_within(self, seconds: float) -> bool:
        """Whether the key that was found expires so soon: its refresh, which begins earlier, has failed."""
        return self._found is not None and _expired(self._found, seconds)

    async def _find(self) -> ProviderCredentials:
        async with self._finding:
            if self._found is None:
                if self._missing is not None and self._monotonic() < self._not_before:
                    raise missing_credential(self._missing)
                try:
                    session = await self.session()
                    self._found = await session.get_credentials()
                    self._missing = None if self._found is not None else _NOTHING_FOUND
                except Exception as failure:
                    self._missing = f"a provider of the chain failed ({type(failure).__name__})"
            if self._found is None:
                self._not_before = self._monotonic() + _RETRY_AFTER
                self.renew()
                raise missing_credential(self._missing or _NOTHING_FOUND)
            self._not_before = float("-inf")
            return self._found


def _session(profile: str | None) -> "AioSession":
    from aiobotocore.session import AioSession  # noqa: PLC0415 # see the module

    session = AioSession(profile=profile)
    session.lazy_register_component("data_loader", lambda: _loader(session.get_config_variable("data_path")))
    return session


@cache
def _loader(data_path: str | None) -> Any:
    """Botocore's loader of service models, one for all sessions: it keeps its models, some megabytes for S3."""
    from botocore.loaders import create_loader  # noqa: PLC0415 # see the module

    return create_loader(data_path)


def _expired(found: ProviderCredentials, within: float = 0) -> bool:
    """Whether the credentials have expired, or will `within` seconds. Only refreshable ones do, and have the
    attribute."""
    refresh_needed = getattr(found, "refresh_needed", None)
    return refresh_needed is not None and bool(refresh_needed(within))
