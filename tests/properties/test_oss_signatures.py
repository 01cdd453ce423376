"""Generated OSS requests: the verifier accepts only what the signature covers, for any key, query and headers.

The requests are signed by security.oss_signers, which shares no code with Forebay. Version 1 is the hard one: it signs
a decoded text that several requests share, and only a part of the query.
"""

import itertools
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.signatures.oss_subresources import COVERED, PAGING
from forebay.protocol.target import Target, parse_target
from forebay.request.authentication import authenticate
from harness.clients import RawRequest
from security.keyrings import GUEST, NOW, OWNER, keyring
from security.oss_signers import OSS_SIGNERS, SUB_RESOURCES, signed_by_v1
from security.signers import Form, form_name

KEYS = keyring()
V1 = [form for form in OSS_SIGNERS if form[0] == "SignedOssV1"]

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
keys = st.one_of(
    words,
    st.lists(st.sampled_from(["/", "..", "%2F", "%", "+", " ", "=", "~", "ü", "a", "?", "&", "\n", "x-oss-acl:b"])).map(
        "".join
    ),
)
values = st.text(st.characters(codec="ascii", min_codepoint=0x21, max_codepoint=0x7E), max_size=12)
queries = st.dictionaries(
    st.sampled_from([*sorted(SUB_RESOURCES - {"security-token"}), *sorted(PAGING)]), words, max_size=4
)
headers = st.dictionaries(
    st.sampled_from(["Content-Type", "Content-MD5", "x-oss-meta-a", "X-Oss-Meta-B", "x-oss-acl", "Range", "If-Match"]),
    values,
)
methods = st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"])
secrets = st.sampled_from([OWNER, GUEST])


def raw_of(key: str, query: dict[str, str], plus: bool = False) -> str:
    told = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items()]
    joined = "&".join(told)
    return f"/bucket/{quote(key, safe='')}" + (f"?{joined.replace('%20', '+') if plus else joined}" if told else "")


def let_in(request: RawRequest) -> Target | None:
    try:
        target = parse_target(request.target, "", ())
        authenticate(KEYS, request.method, target, CIMultiDict(request.pairs), NOW)
    except S3Error:
        return None
    return target


@pytest.mark.parametrize("form", OSS_SIGNERS, ids=form_name)
def test_signed_request_is_accepted(form: Form) -> None:
    @given(methods, keys, queries, headers, secrets, st.booleans())
    @settings(max_examples=60, deadline=None)
    def example(
        method: str, key: str, query: dict[str, str], given_headers: dict[str, str], secret: object, plus: bool
    ) -> None:
        if form[0] == "SignedOssV1":
            assume(method == "GET" or PAGING.isdisjoint(query))
            assume("?" not in key and not any("&" in value for value in query.values()))
        assert secret in {OWNER, GUEST}
        request = OSS_SIGNERS[form](
            OWNER if secret == OWNER else GUEST,
            method,
            raw_of(key, query, plus),
            [*given_headers.items()],
            b"",
            NOW,
            None,
        )
        target = let_in(request)
        assert target is not None
        assert (target.bucket, target.key or "") == ("bucket", key)

    example()


def test_the_list_is_that_of_the_clients() -> None:
    assert COVERED == SUB_RESOURCES
    assert COVERED.isdisjoint(PAGING)


@pytest.mark.parametrize("form", V1, ids=form_name)
def test_version_1_lets_no_name_be_added(form: Form) -> None:
    """Whatever was signed: a name that was not can't stand in the query, unless it only pages."""
    odd = st.sampled_from(["Acl", "acl ", "x-oss-meta-a", "response-x", "accessmonitor", "x-id", "X-Amz-Acl", "", "id"])

    @given(methods, queries, st.one_of(st.sampled_from(sorted(COVERED | PAGING)), odd, words), words, st.booleans())
    @settings(max_examples=300, deadline=None)
    def example(method: str, query: dict[str, str], name: str, value: str, first: bool) -> None:
        assume(name not in query)
        assume(method == "GET" or PAGING.isdisjoint(query))
        request = OSS_SIGNERS[form](OWNER, method, raw_of("key", query), (), b"", NOW, None)
        added = f"{quote(name, safe='')}={quote(value, safe='')}"
        path, _, rest = request.target.partition("?")
        whole = [added, rest] if first else [rest, added]
        let = let_in(RawRequest(method, f"{path}?{'&'.join(each for each in whole if each)}", request.pairs))
        harmless = name in PAGING if method == "GET" else name == "encoding-type"
        # Not even harmless: a nameless pair without a value is none, and stands for nothing.
        assert (let is None) or harmless or not (name or value)
        if let is not None:
            kept = [pair for pair in let.query if pair[0] in SUB_RESOURCES]
            assert sorted(kept) == sorted((*_signature_of(let), *[p for p in query.items() if p[0] in SUB_RESOURCES]))

    example()


def _signature_of(target: Target) -> Iterator[tuple[str, str]]:
    return (pair for pair in target.query if pair[0] == "security-token")


@pytest.mark.parametrize("form", V1, ids=form_name)
def test_version_1_with_a_shorter_list_is_refused(form: Form) -> None:
    """A client that leaves a listed name out of what it signs is told so: anybody could have put it there."""
    for name in sorted(SUB_RESOURCES - {"security-token"}):
        signed = OSS_SIGNERS[form](OWNER, "GET", "/bucket/key", (), b"", NOW, None)
        joint = "&" if "?" in signed.target else "?"
        for value in ("", "=", "=1"):
            assert let_in(RawRequest("GET", f"{signed.target}{joint}{name}{value}", signed.pairs)) is None


@pytest.mark.parametrize(
    ("key", "as_s3", "read"),
    [("a/key", "/bucket/a/key", "a/key"), ("a%2Fb", "/bucket/a%2Fb", "a/b"), ("a b", "/bucket/a%20b", None)],
)
@pytest.mark.parametrize("form", V1, ids=form_name)
def test_version_1_and_version_2_of_s3_sign_one_text(form: Form, key: str, as_s3: str, read: str | None) -> None:
    """As docs/security.md says: what the one signed is good as the other's, and a literal escape is read as one."""
    signed = OSS_SIGNERS[form](OWNER, "GET", raw_of(key, {}), (), b"", NOW, None)
    query = signed.target.partition("?")[2].replace("OSSAccessKeyId", "AWSAccessKeyId")
    pairs = [(name, value.replace("OSS ", "AWS ")) for name, value in signed.pairs]
    let = let_in(RawRequest("GET", f"{as_s3}?{query}" if query else as_s3, tuple(pairs)))
    assert (let.key if let is not None else None) == read


_pieces = [
    "k",
    "/",
    "?",
    "&",
    "=",
    "acl",
    "versionId",
    "uploads",
    "x",
    "uploadId",
    "?acl",
    "&acl",
    "&versionId=",
    "%3F",
]


@pytest.mark.parametrize("form", V1, ids=form_name)
def test_version_1_signature_accepts_one_request_only(form: Form) -> None:
    """Every way of reading a signed text as a key and sub-resources, in any order: at most one of them is let in."""
    seen = [0, 0]

    @given(st.lists(st.sampled_from(_pieces), min_size=1, max_size=8).map("".join))
    @settings(max_examples=200, deadline=None)
    def example(text: str) -> None:
        asked = set[tuple[str, tuple[tuple[str, str], ...]]]()
        for key, query in _readings(text):
            target = let_in(signed_by_v1(form, OWNER, "GET", f"/bucket/{text}", raw_of(key, dict(query)), NOW))
            if target is not None:
                asked.add((target.key or "", tuple(sorted(query))))
            seen[0] += 1
        assert len(asked) <= 1, asked
        seen[1] += len(asked)

    example()
    assert seen[0] > 400
    assert seen[1] > 100


def _readings(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    yield text, []
    for at in (at for at, char in enumerate(text) if char == "?"):
        pieces = text[at + 1 :].split("&")
        for splits in itertools.product((True, False), repeat=len(pieces) - 1):
            pairs = pieces[:1]
            for piece, split in zip(pieces[1:], splits, strict=True):
                if split:
                    pairs.append(piece)
                else:
                    pairs[-1] += f"&{piece}"
            query = [(name, value) for name, _, value in (pair.partition("=") for pair in pairs)]
            if len(dict(query)) == len(query):
                yield text[:at], query
