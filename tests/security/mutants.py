"""Forgeries: what somebody could make of a validly signed request without knowing the secret.

`mutants` changes one thing at a time, in every part of a request that its signature covers; `meaning` is what a request
says in those parts, read by no code of Forebay's. A mutant that still means the same (another spelling of an escape,
more blanks) is no forgery. Everything else must be refused.
"""

import random
import string
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from harness.clients import RawRequest
from security.signers import SIGNERS, Form, Pairs

METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "get", "GETT", "TRACE")
_HEX: Final = "0123456789abcdef"
_ALPHABET: Final = string.ascii_letters + string.digits + "-_.~/%+=&;:, "
_ADDED: Final = (
    *("acl", "tagging", "versionId=null", "uploads", "delete", "uploadId=x", "partNumber=2", "policy", "x-amz-acl=a"),
    *(
        "X-Amz-Signature=0",
        "Signature=0",
        "AWSAccessKeyId=x",
        "X-Amz-Credential=x",
        "response-content-type=a",
        "=",
        "a=",
    ),
)
_ADDED_HEADERS: Final = (
    ("x-amz-copy-source", "bucket/other"),
    ("x-amz-acl", "public-read"),
    ("X-Amz-Security-Token", "other"),
    ("x-amz-date", "20270115T080001Z"),
    ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ("Authorization", "AWS owner/key:AAAA"),
)
_ADDED_TO_OSS: Final = (
    *("acl", "objectMeta", "append", "position=0", "symlink", "tagging", "versionId=null", "uploads", "delete", "="),
    *("uploadId=x", "partNumber=2", "policy", "x-oss-process=a", "x-oss-acl=a", "x-oss-meta-a=b", "x-amz-acl=a", "a="),
    *("Signature=0", "x-oss-signature=0", "OSSAccessKeyId=x", "x-oss-credential=x", "security-token=x"),
    *("x-oss-security-token=x", "x-oss-additional-headers=host", "x-oss-expires=9999999", "X-Amz-Signature=0"),
    *("AWSAccessKeyId=x", "response-content-type=a", "callback=a", "frobnicate"),
)
_HEADERS_ADDED_TO_OSS: Final = (
    ("x-oss-copy-source", "/bucket/other"),
    ("x-oss-object-acl", "public-read"),
    ("x-oss-meta-other", "a"),
    ("x-oss-security-token", "other"),
    ("security-token", "other"),
    ("x-oss-date", "20270115T080001Z"),
    ("x-oss-content-sha256", "UNSIGNED-PAYLOAD"),
    ("x-oss-forbid-overwrite", "true"),
    ("x-amz-copy-source", "bucket/other"),
    ("x-amz-acl", "public-read"),
    ("Content-Type", "text/other"),
    ("Content-MD5", "AAAA"),
    ("Authorization", "OSS owner/key:AAAA"),
)
_COVERED_BY_V2: Final = ("content-md5", "content-type", "date")
# Version 1 of OSS leaves these open, with GET; the first with every method.
_LEFT_OPEN: Final = ("encoding-type", "prefix", "marker", "max-keys", "delimiter", "list-type", "start-after")


class Mutant(NamedTuple):
    part: str
    request: RawRequest


def covered(form: Form, name: str) -> bool:
    """Whether a header is one that the signature of this form covers, or the credential itself."""
    lower = name.lower()
    if form not in SIGNERS:
        return _covered_by_oss(form, lower)
    if lower.startswith("x-amz-") or lower == "authorization":
        return True
    return lower != "content-length" if form[0] == "SignedV4" else lower in _COVERED_BY_V2


def _covered_by_oss(form: Form, name: str) -> bool:
    if name.startswith(("x-oss-", "x-amz-")) or name in {"authorization", "security-token"}:
        return True
    if name == "date":
        return form[1] == "header" and form[0] != "SignedOssV4"
    # security.oss_signers names these two, where there are any to name.
    return name in {"content-md5", "content-type"} or (name in {"range", "if-match"} and form[0] != "SignedOssV1")


def meaning(form: Form, request: RawRequest) -> object:
    """What a request says, in the parts that the signature covers."""
    path, _, query = request.target.partition("?")
    bucket, slash, key = path[1:].partition("/")
    pairs = []
    for pair in query.split("&"):
        name, _, value = pair.replace("+", " ").partition("=")
        if form[0] == "SignedOssV1" and unquote(name) in _LEFT_OPEN[: None if request.method == "GET" else 1]:
            continue
        if pair:
            pairs.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    headers = sorted(
        (name.lower(), _plain(name, value)) for name, value in request.pairs if covered(form, name) and name.lower()
    )
    named = unquote_to_bytes(bucket), unquote_to_bytes(key), bool(slash) if form[0] == "SignedV2" else bool(key)
    return request.method, path[:1], named, sorted(pairs), headers


def _plain(name: str, value: str) -> str:
    if name.lower() == "authorization" and value.startswith(("OSS2", "OSS4")):
        return _plain_oss(value)
    if name.lower() != "authorization" or not value.startswith("AWS4"):
        return " ".join(value.split())
    scheme, _, rest = value.strip().partition(" ")
    fields = sorted("=".join(side.strip() for side in field.split("=", 1)) for field in rest.split(","))
    return scheme + ",".join(
        f"SignedHeaders={';'.join(sorted(each[14:].lower().split(';')))}" if each.startswith("SignedHeaders=") else each
        for each in fields
    )


def _plain_oss(value: str) -> str:
    """Its fields in one order, and the headers that it names."""
    scheme, _, rest = value.strip().partition(" ")
    joint = ":" if scheme == "OSS2" else "="
    fields = []
    for field in rest.split(","):
        name, _, told = field.partition(joint)
        if name.strip() == "AdditionalHeaders":
            told = ";".join(sorted(told.strip().lower().split(";")))
        fields.append(f"{name.strip()}{joint}{told.strip()}")
    return scheme + ",".join(sorted(fields))


def _edits(text: str, rng: random.Random, each: int) -> Iterator[str]:
    """`text` with one character changed, left out, doubled or put in, at every position."""
    for at, old in enumerate(text):
        for new in rng.sample(_ALPHABET, each):
            if new != old:
                yield text[:at] + new + text[at + 1 :]
        yield text[:at] + text[at + 1 :]
        yield text[:at] + old.swapcase() + text[at + 1 :]
        yield text[: at + 1] + rng.choice(_ALPHABET) + text[at + 1 :]
    yield text + "x"
    yield ""


def _signatures(text: str, rng: random.Random, few: bool) -> Iterator[str]:
    """`text` with another digit in each place of its signature, the last run of 64 hex digits or of base64 in it.

    `few`: with some of the digits, where the same comparison has been tried with all of them for another form.
    """
    colon = text.rfind(":") + 1 if text.startswith(("AWS ", "OSS ", "OSS2 ")) else 0
    start = max(text.rfind("ignature=") + 9 if "ignature=" in text else 0, colon)
    digits = _HEX if text[start:].isalnum() and len(text) - start == 64 else string.ascii_letters + string.digits + "+/"
    for at in range(start, len(text)):
        for new in rng.sample(digits, 8) if few else digits:
            if new != text[at]:
                yield text[:at] + new + text[at + 1 :]
    yield text[:start] + "".join(rng.choice(digits) for _ in text[start:])
    yield text[:start]
    yield text[:-1]
    yield text + "0"
    yield text[:start] + text[start:].upper()


def mutants(
    form: Form, request: RawRequest, seed: int, each: int = 1, *, few_digits: bool | None = None
) -> Iterator[Mutant]:
    """Every way of changing one thing; `each`: other characters to try at each position; `few_digits`: only some in
    each place of a signature, None: in those of OSS."""
    few = form not in SIGNERS if few_digits is None else few_digits
    rng = random.Random(seed)
    for method in METHODS:
        yield Mutant("method", replace(request, method=method))
    path, _, query = request.target.partition("?")
    for changed in _edits(path, rng, each):
        yield Mutant("path", replace(request, target=changed + (query and f"?{query}")))
    for target in _queries(path, query, rng, each, _ADDED if form in SIGNERS else _ADDED_TO_OSS):
        yield Mutant("query", replace(request, target=target))
    for pairs in _headers(form, request.pairs, rng, each):
        yield Mutant("headers", replace(request, pairs=tuple(pairs)))
    for index, (name, value) in enumerate(request.pairs):
        if name.lower() == "authorization":
            for changed in _signatures(value, rng, few):
                signed = (*request.pairs[:index], (name, changed), *request.pairs[index + 1 :])
                yield Mutant("signature", replace(request, pairs=signed))
    if "ignature=" in query:
        for changed in _signatures(query, rng, few):
            yield Mutant("signature", replace(request, target=f"{path}?{changed}"))


def _queries(path: str, query: str, rng: random.Random, each: int, more: Sequence[str]) -> Iterator[str]:
    pairs = query.split("&") if query else []
    for added in more:
        yield f"{path}?{'&'.join([added, *pairs])}"
        yield f"{path}?{'&'.join([*pairs, added])}"
    for index, pair in enumerate(pairs):
        rest_before, rest_after = pairs[:index], pairs[index + 1 :]
        yield f"{path}?{'&'.join(rest_before + rest_after)}"
        yield f"{path}?{'&'.join([*rest_before, pair, pair, *rest_after])}"
        name, _, value = pair.partition("=")
        for changed in _edits(name, rng, 1):
            yield f"{path}?{'&'.join([*rest_before, f'{changed}={value}', *rest_after])}"
        for changed in _edits(value, rng, each):
            yield f"{path}?{'&'.join([*rest_before, f'{name}={changed}', *rest_after])}"


def _headers(form: Form, pairs: Pairs, rng: random.Random, each: int) -> Iterator[list[tuple[str, str]]]:
    whole = list(pairs)
    for added in _ADDED_HEADERS if form in SIGNERS else _HEADERS_ADDED_TO_OSS:
        yield [*whole, added]
        yield [added, *whole]
    for index, (name, value) in enumerate(whole):
        if not covered(form, name):
            continue
        before, after = whole[:index], whole[index + 1 :]
        yield before + after
        yield [*before, (name, value), (name, value), *after]
        yield [*before, (name, value), *after, (name, f"{value}x")]
        yield [*before, (f"{name}x", value), *after]
        for changed in _edits(value, rng, each):
            yield [*before, (name, changed), *after]


def damaged(wire: bytes, rng: random.Random) -> bytes:
    """One to three bytes of a head changed, put in or taken out, anywhere."""
    changed = bytearray(wire)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                del changed[at]
            case 2:
                changed.insert(at, rng.choice(b" \t\r\n:;,=&?%/+\0\xff0aA"))
            case _:
                other = rng.randrange(len(changed))
                changed[at], changed[other] = changed[other], changed[at]
    return bytes(changed)
