"""The form reader: a form fed at once or in pieces gives its file; a malformed form is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import S3Error
from forebay.protocol.forms.form_reader import MOST_BEFORE_FILE, FormReader, boundary_of

HEAD = b'--b\r\nContent-Disposition: form-data; name="Key"\r\n\r\na/${filename}\r\n'
FILE = b'--b\r\ncontent-disposition: form-data; name="file"; filename="x.txt"\r\nContent-Type: t/t\r\n\r\n'


def read(*pieces: bytes) -> tuple[FormReader, bytes]:
    form, file = FormReader("b"), b""
    for piece in pieces:
        file += form.feed(piece)
    form.close()
    return form, file


def code(*pieces: bytes) -> str:
    with pytest.raises(S3Error) as refusal:
        read(*pieces)
    return refusal.value.code


contents = st.lists(st.sampled_from([b"\r\n", b"--", b"b", b"\r\n--", b"\r", b"\n", b"x", b"\r\n--a"])).map(b"".join)


@given(contents.filter(lambda content: b"\r\n--b" not in b"" + content), st.integers(1, 9))
def test_the_file_is_returned_unchanged(content: bytes, step: int) -> None:
    body = HEAD + FILE + content + b"\r\n--b--\r\n"
    form, file = read(*(body[at : at + step] for at in range(0, len(body), step)))
    assert file == content
    assert (dict(form.fields), form.filename) == ({"key": "a/${filename}"}, "x.txt")
    assert form.before_file + len(content) + form.usual_epilogue_size == len(body)
    assert read(body)[1] == content


def test_fields_after_the_file_are_skipped() -> None:
    after = b'\r\n--b\r\nContent-Disposition: form-data; name="submit"\r\n\r\nx\r\n--b--'
    form, file = read(HEAD + FILE + b"content" + after)
    assert (file, "submit" in form.fields) == (b"content", False)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "MalformedPOSTRequest"),
        (b"--c\r\n" + HEAD, "MalformedPOSTRequest"),
        (HEAD, "MalformedPOSTRequest"),
        (HEAD + b"--b--\r\n", "InvalidArgument"),
        (HEAD + HEAD + FILE + b"x\r\n--b--\r\n", "InvalidArgument"),
        (HEAD + FILE + b"x", "MalformedPOSTRequest"),
        (HEAD + FILE + b"x\r\n--b", "MalformedPOSTRequest"),
        (HEAD + FILE + b"x\r\n--bcd", "MalformedPOSTRequest"),
        (b"--b\r\n\r\nx\r\n" + FILE + b"x\r\n--b--\r\n", "MalformedPOSTRequest"),
        (b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + FILE, "MalformedPOSTRequest"),
        (b'--b\r\nContent-Disposition: attachment; name="a"\r\n\r\nx\r\n' + FILE, "MalformedPOSTRequest"),
        (b'--b\r\nContent-Disposition: form-data; name="a"; name="b"\r\n\r\nx\r\n', "MalformedPOSTRequest"),
        (HEAD.replace(b"a/", b"\xff"), "MalformedPOSTRequest"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n"), "MalformedPOSTRequest"),
    ],
)
def test_a_malformed_form_is_refused(body: bytes, expected: str) -> None:
    assert code(body) == expected
    assert code(*(body[at : at + 1] for at in range(len(body)))) == expected


@pytest.mark.parametrize("endless", [HEAD[:-2], b"--b\r\nContent-Disposition: "])
def test_the_bytes_before_the_file_are_bounded(endless: bytes) -> None:
    assert code(endless, *[b"x" * 1000] * (MOST_BEFORE_FILE // 1000 + 1)) == "MaxPostPreDataLengthExceeded"
    many = b"".join(HEAD.replace(b"Key", b"k%d" % number) for number in range(1000))
    assert code(many + FILE + b"x\r\n--b--\r\n") == "MaxPostPreDataLengthExceeded"


@pytest.mark.parametrize(("name", "kept"), [("C:\\a\\b.txt", "b.txt"), ("/a/b", "b"), ('a\\"b', 'a"b'), ("", "")])
def test_a_file_name_has_no_directories(name: str, kept: str) -> None:
    form, _ = read(HEAD + FILE.replace(b"x.txt", name.encode()) + b"x\r\n--b--\r\n")
    assert form.filename == kept


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ('Multipart/Form-Data; charset=x; boundary="a b"', "a b"),
        ("application/json", None),
        ("", None),
    ],
)
def test_the_boundary_is_found(content_type: str, boundary: str | None) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "rest", ["", "; boundary=", "; boundary=a; boundary=b", "; boundary=" + "x" * 71, "; boundary=ü"]
)
def test_a_missing_or_malformed_boundary_is_refused(rest: str) -> None:
    with pytest.raises(S3Error) as refusal:
        boundary_of(f"multipart/form-data{rest}")
    assert refusal.value.code == "MalformedPOSTRequest"
