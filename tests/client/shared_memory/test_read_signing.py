"""Signed heads are those that the library's own signing makes, byte for byte in their signature."""

import pytest

from forebay.protocol.signatures.canonical_request import encode_path
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv4_signing import sign_request
from forebay_client.shared_memory.read_signing import ReadSigner

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
NOW = 1_790_000_000.25
KEY = SecretKey("access", "secret")
TEMPORARY = SecretKey("access", "secret", "to/ken==")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def fields_of(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")[1:]
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize("secret", [KEY, TEMPORARY])
@pytest.mark.parametrize("key", ["a", "a b/ü+%/~", "d//e"])
@pytest.mark.parametrize(("span", "text"), [(None, None), ((0, 10), "bytes=0-9"), ((7, None), "bytes=7-")])
def test_a_head_is_signed_as_any_request(
    secret: SecretKey, key: str, span: tuple[int, int | None] | None, text: str | None
) -> None:
    signer = ReadSigner("host:9000", "eu-1", lambda: secret, Clock())
    head = signer.head("bucket", key, span, (("if-match", '"e"'),))
    extra = {"if-match": '"e"'} | ({"range": text} if text is not None else {})
    path = f"/bucket/{encode_path(key)}"
    expected = sign_request("GET", "host:9000", path, (), extra, EMPTY, secret, "eu-1", NOW)
    assert head.startswith(f"GET {path} HTTP/1.1\r\n".encode())
    fields = fields_of(head)
    assert (
        fields.pop("authorization").rpartition("Signature=")[2]
        == (expected["authorization"].rpartition("Signature=")[2])
    )
    assert fields == {"host": "host:9000", **extra, **{n: v for n, v in expected.items() if n != "authorization"}}


def test_another_second_another_day_and_another_key_are_signed_anew() -> None:
    clock, secrets = Clock(), [KEY]
    signer = ReadSigner("h", "r", lambda: secrets[0], clock)
    heads = [signer.head("b", "k", None)]
    for step in (1, 86_400):
        clock.now += step
        heads.append(signer.head("b", "k", None))
    secrets[0] = SecretKey("other", "secret")
    heads.append(signer.head("b", "k", None))
    assert len(set(heads)) == 4
    for head, secret, now in zip(heads[2:], (KEY, secrets[0]), (clock.now, clock.now), strict=True):
        expected = sign_request("GET", "h", "/b/k", (), {}, EMPTY, secret, "r", now)["authorization"]
        assert fields_of(head)["authorization"].rpartition("=")[2] == expected.rpartition("=")[2]


def test_without_a_key_nothing_is_signed() -> None:
    signer = ReadSigner("h", "r", lambda: None, Clock())
    assert signer.head("b", "k", (1, 3)) == b"GET /b/k HTTP/1.1\r\nhost: h\r\nrange: bytes=1-2\r\n\r\n"
