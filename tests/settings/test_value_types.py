"""Addresses, freshness, secrets: the small words of the configuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.settings.addresses import ListenAddress, parse_address, parse_endpoint
from forebay.settings.freshness_values import (
    AlwaysRevalidate,
    Freshness,
    Immutable,
    MaxAge,
    format_freshness,
    parse_freshness,
)
from forebay.settings.path_checks import path_problem
from forebay.settings.secret import Secret


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:9000", ListenAddress("127.0.0.1", 9000), True),
        ("127.1.2.3:0", ListenAddress("127.1.2.3", 0), True),
        ("0.0.0.0:9000", ListenAddress("0.0.0.0", 9000), False),
        ("[::1]:9000", ListenAddress("::1", 9000), True),
        ("[::]:9000", ListenAddress("::", 9000), False),
        ("localhost:9000", ListenAddress("localhost", 9000), True),
        ("localhost.example.org:9000", ListenAddress("localhost.example.org", 9000), False),
        ("127.0.0.1.example.org:1", ListenAddress("127.0.0.1.example.org", 1), False),
    ],
)
def test_addresses(text: str, address: ListenAddress, loopback: bool) -> None:
    assert parse_address(text) == address
    assert address.is_loopback is loopback
    assert str(address) == text


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "127.0.0.1:2", False),
        ("127.0.0.1:0", "127.0.0.1:0", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("127.0.0.1:1", "0.0.0.0:1", True),
        ("[::]:1", "127.0.0.1:1", True),
        ("[::1]:1", "127.0.0.1:1", False),
        ("localhost:1", "127.0.0.1:1", True),
        ("Localhost:1", "localhost:1", True),
        ("a.internal:1", "b.internal:1", False),
    ],
)
def test_addresses_that_are_in_each_others_way(one: str, other: str, overlap: bool) -> None:
    assert parse_address(one).overlaps(parse_address(other)) is overlap
    assert parse_address(other).overlaps(parse_address(one)) is overlap


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1",
        ":9000",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "::1:9000",
        "[::1]",
        "[x]:1",
        "a b:1",
        "host:٣",
        "http://h:1",
        "h:1:2",
    ],
)
def test_addresses_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_address(text)


@given(st.text(max_size=40))
def test_whatever_is_said_an_endpoint_has_no_path_and_no_user(text: str) -> None:
    try:
        endpoint = parse_endpoint(f"https://{text}")
    except ValueError:
        return
    assert not set(endpoint.removeprefix("https://")) & set("/@?# \\\n")


@pytest.mark.parametrize(
    ("text", "freshness"),
    [
        ("immutable", Immutable()),
        ("always", AlwaysRevalidate()),
        ("60s", MaxAge(60.0)),
        ("1h30m", MaxAge(5400.0)),
        ("0s", MaxAge(0.0)),
    ],
)
def test_freshness(text: str, freshness: Freshness) -> None:
    assert parse_freshness(text) == freshness
    assert parse_freshness(format_freshness(freshness)) == freshness


@pytest.mark.parametrize("text", ["", "60", "never", "Immutable", "always "])
def test_freshness_that_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match='"immutable", "always", or a duration'):
        parse_freshness(text)


@pytest.mark.parametrize("path", ["b/**", "**", "**/x", "*/x", "b/a/", "b//", "b/[x]", "b/" + "x" * 2046])
def test_paths(path: str) -> None:
    assert path_problem(path) is None


@pytest.mark.parametrize(
    "path", ["", "b", "b/", "b*", "/b/**", "b/***", "b/\0", "b/" + "x" * 2047, "s3://b/**", "OSS://b/**"]
)
def test_paths_that_are_refused(path: str) -> None:
    assert path_problem(path)


def test_a_secret_is_seen_only_when_asked_for() -> None:
    secret = Secret("tell-nobody")
    assert secret.reveal() == "tell-nobody"
    assert {repr(secret), str(secret), f"{secret}", f"{secret:>20}", "%s" % secret} == {"Secret(***)"}  # noqa: UP031 # an old form, and one that shows
    assert secret == Secret("tell-nobody")
    assert secret != Secret("tell-somebody")
    assert secret != "tell-nobody"
    assert not hasattr(secret, "__dict__")
