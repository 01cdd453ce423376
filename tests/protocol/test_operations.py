"""Classification of requests: plain reads, known and unknown operations, and refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.operation_table import OPERATIONS, OperationRow
from forebay.protocol.operations import Access, Effect, Operation, classify
from forebay.protocol.target import parse_target

PRESIGNED = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=K%2F20260101%2Fr%2Fs3%2Faws4_request&X-Amz-Date=20260101T000000Z"
    "&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Security-Token=t&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD"
    "&x-amz-checksum-mode=ENABLED&X-Amz-Signature=0"
)


def classify_line(line: str, **headers: str) -> Operation:
    """`line` is "GET /b/k?acl"; header names are written with underscores."""
    method, _, target = line.partition(" ")
    pairs = CIMultiDict((name.replace("_", "-"), value) for name, value in headers.items())
    return classify(method, parse_target(target, "", ()), pairs)


def refusal(line: str, **headers: str) -> str:
    with pytest.raises(S3Error) as caught:
        classify_line(line, **headers)
    return caught.value.code


def classify_or_code(line: str) -> Operation | str:
    """Returns the operation, or the error code of the refusal."""
    try:
        return classify_line(line)
    except S3Error as error:
        return error.code


def line_of(row: OperationRow) -> str:
    path = {"service": "/", "bucket": "/b", "object": "/b/k"}[row.level]
    return f"{row.method} {path}?{'&'.join(sorted(row.required))}"


@pytest.mark.parametrize(
    "line",
    [
        "GET /b/k",
        "HEAD /b/k",
        "GET /b/k?x-id=GetObject",
        "HEAD /b/k?x-id=HeadObject",
        f"GET /b/k?{PRESIGNED}",
        f"GET /b/k?{PRESIGNED}&x-id=GetObject",
    ],
)
def test_plain_read_is_recognised(line: str) -> None:
    operation = classify_line(
        line,
        Host="h",
        Authorization="a",
        Range="bytes=0-1",
        If_None_Match='"e"',
        Accept_Encoding="identity",
        x_amz_date="d",
        X_Amz_Content_SHA256="UNSIGNED-PAYLOAD",
        X_AMZ_SECURITY_TOKEN="t",
        x_amz_checksum_mode="ENABLED",
        x_amz_user_agent="aws-sdk-js",
        amz_sdk_invocation_id="i",
        amz_sdk_request="attempt=1",
        X_Amzn_Trace_Id="t",
    )
    assert operation.is_plain_read
    assert operation.name == ("GetObject" if line.startswith("GET") else "HeadObject")
    assert (operation.access, operation.effect) == (Access.READ, Effect.NOTHING)


@pytest.mark.parametrize(
    "query",
    [
        "versionId=1",
        "versionId=",
        "partNumber=1",
        "response-content-type=text/plain",
        "response-cache-control=x",
        "x-id=GetObjectAcl",
        "x-id=",
        "X-Id=GetObject",
        "x-oss-process=image/resize",
        "x-amz-expected-bucket-owner=1",
        "X-Amz-Server-Side-Encryption-Customer-Key=1",
        "x-amz-request-payer=requester",
        "acl",
        "tagging",
        "attributes",
        "torrent",
        "objectMeta",
        "anything",
        "=",
        f"{PRESIGNED}&versionId=1",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_read_with_other_parameters_is_not_plain(method: str, query: str) -> None:
    operation = classify_or_code(f"{method} /b/k?{query}")
    if isinstance(operation, str):
        # There is no HEAD of a sub-resource.
        assert (method, operation) == ("HEAD", "MethodNotAllowed")
    else:
        assert not operation.is_plain_read
        assert operation.access is Access.READ


@pytest.mark.parametrize(
    "header",
    [
        "x-amz-server-side-encryption-customer-algorithm",
        "X-Amz-Server-Side-Encryption-Customer-Key",
        "x-amz-server-side-encryption-customer-key-MD5",
        "x-amz-expected-bucket-owner",
        "x-amz-request-payer",
        "x-amz-object-attributes",
        "x-amz-te",
        "X-AMZ-ANYTHING-NEW",
        "x-oss-process",
    ],
)
def test_read_with_a_significant_header_is_not_plain(header: str) -> None:
    operation = classify("GET", parse_target("/b/k", "", ()), CIMultiDict({header: "1"}))
    assert operation == Operation("GetObject", "object", Access.READ, Effect.NOTHING, is_plain_read=False)


@given(st.from_regex(r"x-amz-[a-z-]{1,30}", fullmatch=True))
def test_read_with_an_unlisted_amz_header_is_not_plain(header: str) -> None:
    harmless = {"date", "content-sha256", "security-token", "checksum-mode", "user-agent", "api-version"}
    if header in {"x-amz-copy-source", "x-amz-rename-source"}:
        return
    plain = classify("GET", parse_target("/b/k", "", ()), CIMultiDict({header.title(): "1"})).is_plain_read
    assert plain == (header.removeprefix("x-amz-") in harmless)


def test_api_version_header_keeps_a_read_plain() -> None:
    # pyarrow (the AWS SDK for C++) sends this header with every request.
    headers = CIMultiDict({"x-amz-api-version": "2006-03-01", "Range": "bytes=0-1"})
    assert classify("GET", parse_target("/b/k", "", ()), headers).is_plain_read
    assert classify("HEAD", parse_target("/b/k", "", ()), headers).is_plain_read


@pytest.mark.parametrize(
    "row", [row for row in OPERATIONS if not row.refused and row.name != "PostObject"], ids=lambda row: row.name
)
def test_every_row_is_recognised(row: OperationRow) -> None:
    headers = {"x_amz_copy_source": "b/source"} if row.is_copy else {}
    operation = classify_line(line_of(row), **headers)
    expected = Operation(row.name, row.level, row.access, row.effect, is_plain_read=row.cached)
    assert operation == expected
    every = "&".join(f"{name}=1" for name in sorted(row.required | row.optional) if name not in row.required)
    qualified = classify_line(f"{line_of(row)}&{every}&x-id={row.name}&{PRESIGNED}", **headers)
    assert qualified.name == (row.name)
    assert not qualified.is_plain_read or not row.optional


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.refused], ids=lambda row: row.name)
def test_refused_row_is_refused_with_any_parameters(row: OperationRow) -> None:
    # Its request is a POST to a bucket that is not a form upload.
    code = "PreconditionFailed" if row.name == "WriteGetObjectResponse" else "NotImplemented"
    assert refusal(line_of(row)) == code
    if row.required:
        assert refusal(f"{line_of(row)}&anything=1") == "NotImplemented"


@pytest.mark.parametrize(
    ("line", "name", "access", "effect"),
    [
        ("GET /b/k?anything", "UnknownGet", Access.READ, Effect.NOTHING),
        ("HEAD /b/k?objectMeta", "UnknownHead", Access.READ, Effect.NOTHING),
        ("PUT /b/k?anything", "UnknownPut", Access.WRITE, Effect.OBJECT),
        ("PUT /b/k?partNumber=1", "UnknownPut", Access.WRITE, Effect.OBJECT),
        ("POST /b/k", "UnknownPost", Access.WRITE, Effect.OBJECT),
        ("POST /b/k?append&position=0", "UnknownPost", Access.WRITE, Effect.OBJECT),
        ("DELETE /b/k?anything", "UnknownDelete", Access.DELETE, Effect.OBJECT),
        ("GET /b?anything", "UnknownGet", Access.LIST, Effect.NOTHING),
        ("HEAD /b?anything", "UnknownHead", Access.LIST, Effect.NOTHING),
        ("PUT /b?anything", "UnknownPut", Access.WRITE, Effect.BUCKET),
        ("POST /b?anything", "UnknownPost", Access.WRITE, Effect.BUCKET),
        ("DELETE /b?anything", "UnknownDelete", Access.DELETE, Effect.BUCKET),
        # A known sub-resource with an unknown name: the same access, a larger effect.
        ("PUT /b/k?uploadId=1&partNumber=1&anything", "UnknownPut", Access.WRITE, Effect.OBJECT),
        ("DELETE /b/k?uploadId=1&anything", "UnknownDelete", Access.WRITE, Effect.OBJECT),
        ("GET /b/k?uploadId=1&partNumber=1", "UnknownGet", Access.WRITE, Effect.NOTHING),
        ("PUT /b?cors&anything", "UnknownPut", Access.WRITE, Effect.BUCKET),
        ("GET /b?list-type=2&prefix=a&anything", "UnknownGet", Access.LIST, Effect.NOTHING),
        ("GET /b?policy&prefix=a", "UnknownGet", Access.LIST, Effect.NOTHING),
    ],
)
def test_unknown_operation_is_forwarded_conservatively(line: str, name: str, access: Access, effect: Effect) -> None:
    operation = classify_line(line)
    assert (operation.name, operation.access, operation.effect) == (name, access, effect)
    assert not operation.is_plain_read


@pytest.mark.parametrize(
    "line",
    [
        # Swift drops the key and serves the bucket.
        "POST /b/k?delete",
        "GET /b/k?uploads",
        "GET /b/k?versions",
        "GET /b/k?list-type=2",
        "PUT /b/k?versioning",
        "GET /b/k?location",
        "DELETE /b/k?lifecycle",
        # Two sub-resources: the origin might choose the other one.
        "PUT /b/k?acl&uploadId=1&partNumber=1",
        "PUT /b/k?acl&tagging",
        "POST /b/k?uploads&uploadId=1",
        "POST /b?delete&uploads",
        "GET /b?policy&list-type=2",
        # Sub-resources where S3 has none.
        "DELETE /b/k?acl",
        "HEAD /b?acl",
        "GET /b?attributes",
        "PUT /b/k?uploadId=1",
        "GET /?acl",
    ],
)
def test_misplaced_sub_resource_is_refused(line: str) -> None:
    assert refusal(line) == "MethodNotAllowed"


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "PROPFIND", ""])
@pytest.mark.parametrize("path", ["/", "/b", "/b/k"])
def test_other_methods_are_not_allowed(method: str, path: str) -> None:
    assert refusal(f"{method} {path}") == "MethodNotAllowed"


@pytest.mark.parametrize("line", ["POST /", "PUT /", "DELETE /", "HEAD /", "POST /?Action=AssumeRole"])
def test_service_level_allows_only_list_buckets(line: str) -> None:
    assert refusal(line) == "MethodNotAllowed"
    assert refusal("GET /?Action=GetSessionToken") == "InvalidArgument"


@pytest.mark.parametrize("line", ["POST /b", "POST /b/k", "POST /b?uploads", "POST /b/k?uploadId=1"])
def test_classify_refuses_form_uploads(line: str) -> None:
    assert refusal(line, Content_Type=" Multipart/Form-Data; boundary=x") == "NotImplemented"


def test_delete_objects_refuses_unknown_parameters() -> None:
    assert classify_line("POST /b?delete").effect is Effect.LISTED_KEYS
    # With encoding-type=url some servers decode the keys of the body once more.
    assert refusal("POST /b?delete&encoding-type=url") == "InvalidArgument"


def test_repeated_parameter_is_refused() -> None:
    assert refusal("GET /b?prefix=a&prefix=b") == "InvalidArgument"
    assert refusal("GET /b/k?versionId=1&versionId=2") == "InvalidArgument"


@pytest.mark.parametrize(
    "line", ["PUT /b", "GET /b/k", "POST /b/k?uploads", "PUT /b/k?acl", "PUT /b/k?anything", "DELETE /b/k", "POST /b/k"]
)
def test_copy_source_on_another_operation_is_refused(line: str) -> None:
    assert refusal(line, x_amz_copy_source="secret/k") == "InvalidArgument"


def test_copy_source_distinguishes_copies_from_uploads() -> None:
    assert classify_line("PUT /b/k", x_amz_copy_source="s/k").name == "CopyObject"
    assert classify_line("PUT /b/k?partNumber=1&uploadId=1", X_Amz_Copy_Source="s/k").name == "UploadPartCopy"
    assert classify_line("PUT /b/k").name == "PutObject"
    for parameter in ("x-amz-copy-source=s/k", "X-Amz-Copy-Source=s/k", "x-amz-rename-source=s/k"):
        assert refusal(f"PUT /b/k?{parameter}") == "NotImplemented"


@pytest.mark.parametrize("line", ["PUT /b/k", "PUT /b/k?renameObject", "PUT /b/k?anything", "GET /b/k"])
def test_rename_is_refused(line: str) -> None:
    assert refusal(line, x_amz_rename_source="b/old") == "NotImplemented"


@given(
    st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]),
    st.sampled_from(["/", "/b", "/b/k"]),
    st.lists(
        st.sampled_from(sorted({name for row in OPERATIONS for name in row.required | row.optional} | {"new"})),
        max_size=3,
    ),
)
def test_no_query_reduces_the_effect_or_access_of_a_write(method: str, path: str, names: list[str]) -> None:
    operation = classify_or_code(f"{method} {path}?{'&'.join(names)}")
    if isinstance(operation, str):
        assert operation in {"MethodNotAllowed", "NotImplemented", "InvalidArgument", "PreconditionFailed"}
        return
    assert operation.is_plain_read == (method in {"GET", "HEAD"} and path == "/b/k" and not names)
    if method in {"PUT", "DELETE"} and operation.effect is Effect.NOTHING:
        row = next(row for row in OPERATIONS if row.name == operation.name)
        assert set(names) <= row.required | row.optional
    if operation.level == "object" and method in {"PUT", "POST"}:
        assert operation.access is Access.WRITE or operation.name == "SelectObjectContent"
