"""Authentication in open mode: this machine is trusted, the pages in its browsers are not."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.protocol.target import parse_target
from forebay.request.authentication import Keyring, authenticate, authenticate_form
from forebay.server.gateway_policy import EVERYBODY

OPEN = Keyring({}, {}, EVERYBODY, ("forebay.internal",))


def ask(**headers: str) -> str:
    fields = CIMultiDictProxy(CIMultiDict(headers))
    target = parse_target("/bucket/key", headers.get("Host", ""), ("forebay.internal",))
    principal, signed = authenticate(OPEN, "GET", target, fields, 0.0)
    assert signed is None
    assert authenticate_form(OPEN, fields, {}) is principal
    return principal.id


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9000",
        "127.0.0.1",
        "[::1]:9000",
        "[::1]",
        "localhost:9000",
        "bucket.localhost:9000",
        "bucket.forebay.internal",
        "FOREBAY.internal:80",
    ],
)
def test_programs_of_this_machine_are_everybody(host: str) -> None:
    assert ask(Host=host) == EVERYBODY.id


def test_programs_with_fetch_of_their_own_are_everybody() -> None:
    """Node's fetch sends this header of browsers, and no other (https://github.com/nodejs/undici)."""
    assert ask(Host="127.0.0.1:9000", **{"Sec-Fetch-Mode": "cors"}) == EVERYBODY.id


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:9000"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "forebay.internal.evil.example"},
        {"Host": "notforebay.internal"},
        {"Host": "127.0.0.1:9000", "Origin": "https://evil.example"},
        {"Host": "127.0.0.1:9000", "Origin": "null"},
        {"Host": "127.0.0.1:9000", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "localhost:9000", "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "localhost:9000", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {"Host": "localhost:9000", "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {"Host": "localhost:9000", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "localhost:9000", "Sec-Fetch-Mode": " Navigate"},
        {"Host": "localhost:9000", "sec-fetch-site": "None, cross-site"},
    ],
    ids=str,
)
def test_web_pages_are_nobody(headers: dict[str, str]) -> None:
    with pytest.raises(S3Error) as refused:
        ask(**headers)
    assert refused.value.code == "AccessDenied"
