"""Credentials: fixed keys, the provider chain, and a refresh that fails."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from aiobotocore.session import AioSession

from forebay.core.errors import OriginCredentialFault
from forebay.origin.credentials import ANONYMOUS, CredentialChain, StaticCredentials
from forebay.protocol.signatures.signing_key import SecretKey


@dataclass
class Frozen:
    access_key: str
    secret_key: str
    token: str | None


class Refreshable:
    """What a provider finds; tests say what the next refresh brings."""

    def __init__(self) -> None:
        self.next: Frozen | Exception = Frozen("a1", "s1", "t1")
        self.expired = False
        self.left = 3600.0
        """Seconds."""
        self.calls = 0

    async def get_frozen_credentials(self) -> Frozen:
        self.calls += 1
        if isinstance(self.next, Exception):
            raise self.next
        return self.next

    def refresh_needed(self, refresh_in: float) -> bool:
        return self.expired or refresh_in > self.left


class Session:
    """A chain that finds what it is given."""

    def __init__(self, found: Refreshable | Exception | None) -> None:
        self.found: Refreshable | Exception | None = found

    async def get_credentials(self) -> Refreshable | None:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


async def test_static_and_anonymous() -> None:
    key = SecretKey("a", "s", "t")
    assert await StaticCredentials(key).current() == key
    assert await ANONYMOUS.current() is None
    session = await StaticCredentials(key).session()
    found = await session.get_credentials()
    assert (found.access_key, found.secret_key, found.token) == ("a", "s", "t")


async def test_refreshed_keys_are_used_at_once() -> None:
    found = Refreshable()
    chain = CredentialChain(session=Session(found))
    assert await chain.current() == SecretKey("a1", "s1", "t1")
    found.next = Frozen("a2", "s2", None)
    assert await chain.current() == SecretKey("a2", "s2", None)


async def test_a_failed_refresh_keeps_the_old_key_while_it_is_good() -> None:
    now = 0.0
    found = Refreshable()
    chain = CredentialChain(session=Session(found), monotonic=lambda: now)
    old = await chain.current()
    found.next = RuntimeError("token=hush")
    assert await chain.current() == old
    assert found.calls == 2
    assert await chain.current() == old
    assert found.calls == 2  # not tried again at once
    now = 10.0
    assert await chain.current() == old
    assert found.calls == 3
    found.expired = True
    with pytest.raises(OriginCredentialFault) as raised:
        await chain.current()
    assert "hush" not in str(raised.value)
    assert raised.value.__suppress_context__
    found.expired, found.next = False, Frozen("a3", "s3", None)
    now = 20.0
    assert await chain.current() == SecretKey("a3", "s3", None)


@pytest.mark.parametrize("found", [None, RuntimeError("token=hush")])
async def test_a_chain_without_credentials_raises(found: Exception | None) -> None:
    chain = CredentialChain(session=Session(found))
    with pytest.raises(OriginCredentialFault) as raised:
        await chain.current()
    assert "hush" not in str(raised.value)


async def test_a_chain_that_finds_nothing_says_what_to_set() -> None:
    with pytest.raises(OriginCredentialFault) as raised:
        await CredentialChain(session=Session(None)).current()
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where Forebay starts" in raised.value.reason


async def test_a_chain_that_failed_is_tried_again() -> None:
    """Later: a search may ask the network, and every request needs a key."""
    now = 0.0
    session = Session(None)
    chain = CredentialChain(session=session, monotonic=lambda: now)
    with pytest.raises(OriginCredentialFault):
        await chain.current()
    session.found = Refreshable()
    with pytest.raises(OriginCredentialFault):
        await chain.current()
    now = 10.0
    assert (await chain.current()).access_key == "a1"


async def test_a_refused_key_is_searched_for_again() -> None:
    session = Session(Refreshable())
    chain = CredentialChain(session=session)
    assert (await chain.current()).access_key == "a1"
    session.found = renewed = Refreshable()
    renewed.next = Frozen("a2", "s2", None)
    assert (await chain.current()).access_key == "a1"
    chain.renew()
    assert (await chain.current()).access_key == "a2"


async def test_a_profile_of_the_shared_file(tmp_path: Path) -> None:
    """The real chain, told where its file is."""
    shared = tmp_path / "credentials"
    shared.write_text("[lab]\naws_access_key_id = LAB\naws_secret_access_key = s\naws_session_token = t\n")
    session = AioSession(profile="lab")
    session.set_config_variable("credentials_file", str(shared))
    session.set_config_variable("config_file", str(tmp_path / "none"))
    assert await CredentialChain(session=session).current() == SecretKey("LAB", "s", "t")
    assert await CredentialChain(session=session).session() is session


async def test_only_a_key_that_expires_can_be_near_its_end() -> None:
    found = Refreshable()
    chain = CredentialChain(session=cast("AioSession", Session(found)))
    assert not chain.ends_within(300), "none was looked for"
    await chain.current()
    assert not chain.ends_within(300)
    found.left = 299.0
    assert chain.ends_within(300)
    assert not StaticCredentials(SecretKey("a", "s", "t")).ends_within(1e9)


async def test_sessions_load_the_models_of_services_once() -> None:
    """That of S3 takes a sixth of a second, and megabytes."""
    sessions = [await credentials.session() for credentials in (ANONYMOUS, StaticCredentials(None))]
    first, second = (session.get_component("data_loader") for session in sessions)
    assert first is second
