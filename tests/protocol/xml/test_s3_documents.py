"""The S3 documents that Forebay writes or reads itself."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import S3Error
from forebay.protocol.xml.s3_documents import (
    MAX_BODY,
    ListedKey,
    UploadedPart,
    embedded_error,
    error_document,
    listed_keys,
    result_etag,
    upload_id,
)
from harness.uploaded_parts import uploaded_parts

NS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def refusal(body: bytes) -> str:
    with pytest.raises(S3Error) as caught:
        listed_keys(body)
    return caught.value.code


def test_an_error_document_has_the_elements_of_s3() -> None:
    body = error_document(S3Error("NoSuchKey", Key="a&b"), request_id="7", host_id="h")
    assert body.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code><Message>')
    fields = {element.tag: element.text for element in ET.fromstring(body)}
    assert fields == {
        "Code": "NoSuchKey",
        "Message": "The key does not exist.",
        "Key": "a&b",
        "RequestId": "7",
        "HostId": "h",
    }


@given(st.text(max_size=50), st.text(max_size=50))
def test_an_error_document_is_well_formed_for_any_input(message: str, key: str) -> None:
    body = error_document(S3Error("InvalidArgument", message, ArgumentValue=key), request_id="\x00<&>", host_id="h")
    fields = {element.tag: element.text or "" for element in ET.fromstring(body)}
    legal = "".join(
        c if c in "\t\n\r" or 0x20 <= ord(c) <= 0xD7FF or 0xE000 <= ord(c) <= 0xFFFD or ord(c) > 0xFFFF else "\ufffd"
        for c in key
    )
    assert fields["ArgumentValue"] == legal
    assert fields["RequestId"] == "\ufffd<&>"
    assert set(fields) <= {"Code", "Message", "ArgumentValue", "RequestId", "HostId"}


def test_line_ends_are_read_back_unchanged() -> None:
    body = error_document(S3Error("NoSuchKey", Key="a\rb\r\nc\n"), request_id="", host_id="h")
    element = ET.fromstring(body).find("Key")
    assert element is not None
    assert element.text == "a\rb\r\nc\n"


def test_surrogates_become_replacement_characters() -> None:
    assert "�" in error_document(S3Error("InvalidURI", Key="\udcff"), request_id="", host_id="h").decode()


def test_listed_keys_are_read() -> None:
    body = (
        f"<?xml version='1.0' encoding='utf-8'?><Delete {NS}><Quiet>true</Quiet>"
        "<Object><Key>a/../b</Key></Object>"
        "<Object><Key> blank &lt;&#233;&gt;%2F </Key><VersionId>v1</VersionId><ETag>e</ETag><Size>3</Size></Object>"
        "</Delete>"
    )
    assert listed_keys(body.encode()) == [
        ListedKey("a/../b", None),
        ListedKey(" blank <é>%2F ", "v1", is_conditional=True),
    ]


@pytest.mark.parametrize(
    "inner",
    [
        "",
        "<Object/>",
        "<Object></Object>",
        "<Object><key>a</key></Object>",
        "<Object><Key>a</Key><Key>b</Key></Object>",
        "<Object><Key>a</Key><Anything>b</Anything></Object>",
        "<Object><Key>a<!-- -->b</Key></Object>",
        "<Object><Key>a<b/></Key></Object>",
        "<Other><Key>a</Key></Other>",
        "<Object><Key>a</Key></Object><Wrap><Object><Key>b</Key></Object></Wrap>",
        "<Object><Key>a</Key></Object><Key>b</Key>",
        "<Object><Key>a</Key></Object><Quiet>true</Quiet><Quiet>false</Quiet>",
    ],
)
def test_an_ambiguous_list_is_malformed(inner: str) -> None:
    assert refusal(f"<Delete>{inner}</Delete>".encode()) == "MalformedXML"


@pytest.mark.parametrize(
    "inner", ["<Key></Key>", "<Key/>", "<VersionId>1</VersionId>", "<VersionId>1</VersionId><Key></Key>"]
)
def test_an_object_without_a_key_is_refused(inner: str) -> None:
    assert refusal(f"<Delete><Object>{inner}</Object></Delete>".encode()) == "UserKeyMustBeSpecified"


def test_number_and_length_of_listed_keys_are_bounded() -> None:
    one = "<Object><Key>k</Key></Object>"
    assert len(listed_keys(f"<Delete>{one * 1000}</Delete>".encode())) == 1000
    assert refusal(f"<Delete>{one * 1001}</Delete>".encode()) == "MalformedXML"
    assert refusal(b"<Delete>" + b" " * MAX_BODY + b"</Delete>") == "MalformedXML"
    assert refusal(f"<Delete><Object><Key>{'k' * 1025}</Key></Object></Delete>".encode()) == "KeyTooLongError"
    assert refusal(b"<Deletes><Object><Key>k</Key></Object></Deletes>") == "MalformedXML"
    assert refusal(b"") == "MissingRequestBodyError"


def test_uploaded_parts_are_read() -> None:
    body = (
        f"<CompleteMultipartUpload {NS}><Part><ETag>&quot;a&quot;</ETag><PartNumber>1</PartNumber></Part>"
        "<Part><PartNumber> 10000 </PartNumber><ETag>b</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part>"
        "<Part><PartNumber>3</PartNumber></Part></CompleteMultipartUpload>"
    )
    summed = UploadedPart(10_000, "b", (("ChecksumCRC32", "AAAAAA=="),))
    assert uploaded_parts(body.encode()) == [UploadedPart(1, '"a"'), summed, UploadedPart(3, "")]


@pytest.mark.parametrize("number", ["", "0", "-1", "10001", "1e3", "٣", "99999999999999999999"])
def test_a_part_without_a_valid_number_is_malformed(number: str) -> None:
    part = f"<Part><PartNumber>{number}</PartNumber><ETag>a</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"
    with pytest.raises(S3Error) as caught:
        uploaded_parts(body.encode())
    assert caught.value.code == "MalformedXML"


@pytest.mark.parametrize("inner", ["", "<Part/>", "<Piece><PartNumber>1</PartNumber></Piece>", "<A>1</A>"])
def test_a_completion_without_parts_is_malformed(inner: str) -> None:
    with pytest.raises(S3Error) as caught:
        uploaded_parts(f"<CompleteMultipartUpload>{inner}</CompleteMultipartUpload>".encode())
    assert caught.value.code == "MalformedXML"


def test_ten_thousand_parts_with_checksums_are_allowed() -> None:
    checksums = "<ETag>e</ETag><ChecksumCRC32>a</ChecksumCRC32><ChecksumSHA256>b</ChecksumSHA256>"
    parts = "".join(f"<Part><PartNumber>{n}</PartNumber>{checksums}</Part>" for n in range(1, 10_001))
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    assert len(uploaded_parts(body)) == 10_000


@pytest.mark.parametrize("root", ["CompleteMultipartUploadResult", "CopyObjectResult", "CopyPartResult"])
def test_the_etag_of_a_result_is_found(root: str) -> None:
    inner = "<Location>http://x</Location><ETag>&quot;abc-2&quot;</ETag>"
    for lead in ("", "  \n\n"):
        body = f"{lead}<?xml version='1.0'?>\n \n<{root} {NS}>{inner}</{root}>".encode()
        assert result_etag(body) == '"abc-2"'
        assert embedded_error(body) is None
    assert result_etag(b"<Other><ETag>a</ETag></Other>") is None
    assert result_etag(f"<{root}/>".encode()) is None
    assert result_etag(b"not xml") is None


def test_the_upload_id_is_found() -> None:
    inner = "<Bucket>b</Bucket><UploadId>VXBs</UploadId>"
    body = f"<InitiateMultipartUploadResult {NS}>{inner}</InitiateMultipartUploadResult>"
    assert upload_id(body.encode()) == "VXBs"
    assert upload_id(b"<Error><UploadId>x</UploadId></Error>") is None


def test_an_error_in_a_success_response_is_found() -> None:
    error = b"<?xml version='1.0'?>\n<Error><Code>InternalError</Code><Message>m</Message></Error>"
    assert embedded_error(error) == "InternalError"
    assert embedded_error(b" \n " + error.replace(b"InternalError", b"SlowDown")) == "SlowDown"
    assert embedded_error(b"<Error/>") == "InternalError"
    assert embedded_error(b"<Error><Code>SlowD") == "InternalError"


def test_another_document_has_no_embedded_error() -> None:
    for body in (b"", b"bytes", b"<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code></Error></DeleteResult>"):
        assert embedded_error(body) is None
