"""Objects: written, read whole and in ranges, under conditions, copied, deleted singly and together, odd names."""

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient, md5

_OLD, _NEW = "Sat, 01 Jan 2000 00:00:00 GMT", "Tue, 01 Jan 2030 00:00:00 GMT"


@case
def life(s3: RecordingClient) -> None:
    s3.send("GET", "foo")
    s3.send("HEAD", "foo")
    for body in (b"", b"bar", b"soup" * 100_000, b"x"):
        s3.send("PUT", "foo", body=body)
        for _ in range(2):
            s3.send("GET", "foo")
            s3.send("HEAD", "foo")
    s3.send("DELETE", "foo")
    s3.send("GET", "foo")
    s3.send("HEAD", "foo")
    s3.send("DELETE", "foo")
    s3.send("GET", "foo", bucket="alike-no-such-bucket")
    s3.send("PUT", "foo", bucket="alike-no-such-bucket", body=b"bar")
    s3.send("DELETE", "foo", bucket="alike-no-such-bucket")


@case
def ranges(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"0123456789")
    s3.send("PUT", "empty")
    asked: tuple[str, ...] = (
        "0-0",
        "4-7",
        "4-",
        "-7",
        "-0",
        "-100",
        "0-100",
        "9-9",
        "10-",
        "40-50",
        "5-4",
        "a-b",
        "-",
        "",
        " 1-2",
        "1 - 2",
    )
    asked += ("0-1,3-4", "0-9", "00-01", "1-2,", ",1-2", "-1-2", "99999999999999999999-", "0-99999999999999999999")
    for span in asked:
        for key in ("foo", "empty"):
            s3.send("GET", key, headers={"Range": f"bytes={span}"})
            s3.send("HEAD", key, headers={"Range": f"bytes={span}"})
    for whole in ("bytes", "octets=0-1", "Bytes=0-1", "bytes =0-1", "bytes: 0-1", "0-1"):
        s3.send("GET", "foo", headers={"Range": whole})
    s3.send("GET", "none", headers={"Range": "bytes=0-1"})


@case
def conditions(s3: RecordingClient) -> None:
    etag = s3.send("PUT", "foo", body=b"0123456789").etag
    names = ("If-Match", "If-None-Match")
    values = (
        etag,
        etag.strip('"'),
        '"other"',
        "*",
        f'"other", {etag}',
        f"W/{etag}",
        "",
        '""',
        f"{etag},",
        etag.upper(),
    )
    times = ("If-Modified-Since", "If-Unmodified-Since")
    for method in ("GET", "HEAD"):
        for name in names:
            for value in values:
                s3.send(method, "foo", headers={name: value})
            s3.send(method, "none", headers={name: etag})
            s3.send(method, "none", headers={name: "*"})
        for name in times:
            for value in (_OLD, _NEW, "nonsense", "", "2000-01-01T00:00:00Z", "Saturday, 01-Jan-00 00:00:00 GMT"):
                s3.send(method, "foo", headers={name: value})
    for match in (etag, '"other"'):
        for time in (_OLD, _NEW):
            s3.send("GET", "foo", headers={"If-Match": match, "If-Unmodified-Since": time})
            s3.send("GET", "foo", headers={"If-None-Match": match, "If-Modified-Since": time})
            s3.send("GET", "foo", headers={"If-None-Match": match, "If-Unmodified-Since": time})
            s3.send("GET", "foo", headers={"If-Match": match, "If-Modified-Since": time})
        s3.send("GET", "foo", headers={"If-Match": match, "Range": "bytes=0-1"})
        s3.send("GET", "foo", headers={"If-Match": match, "Range": "bytes=99-"})
        s3.send("GET", "foo", headers={"If-None-Match": match, "Range": "bytes=0-1"})
        s3.send("GET", "foo", headers={"If-Range": match, "Range": "bytes=0-1"})
    s3.send("GET", "foo", headers={"If-Range": _NEW, "Range": "bytes=0-1"})


@case
def conditional_writes(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", headers={"If-None-Match": "*"}, body=b"one")
    s3.send("GET", "foo")
    s3.send("PUT", "foo", headers={"If-None-Match": "*"}, body=b"two")
    etag = s3.send("GET", "foo").etag
    for value in ('"other"', etag, etag.strip('"'), "*"):
        s3.send("PUT", "foo", headers={"If-Match": value}, body=b"three")
        s3.send("GET", "foo")
    s3.send("PUT", "none", headers={"If-Match": "*"}, body=b"four")
    s3.send("PUT", "none", headers={"If-Match": etag}, body=b"four")
    s3.send("PUT", "foo", headers={"If-None-Match": etag}, body=b"five")
    s3.send("GET", "none")
    s3.send("PUT", "foo", headers={"If-Unmodified-Since": _OLD}, body=b"six")
    s3.send("GET", "foo")
    for value in ('"other"', "*"):
        s3.send("DELETE", "foo", headers={"If-Match": value})
    s3.send("GET", "foo")


@case
def response_overrides(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", headers={"Cache-Control": "no-cache"}, body=b"bar")
    names = ("content-type", "content-language", "expires", "cache-control", "content-disposition", "content-encoding")
    asked = {f"response-{name}": f"foo/{name}" for name in names}
    for method in ("GET", "HEAD"):
        s3.send(method, "foo", asked)
        s3.send(method, "foo", asked, {"Range": "bytes=0-0"})
    for name in asked:
        s3.send("GET", "foo", {name: ""})
        s3.send("GET", "foo", {name: "a b;c=d"})
    s3.send("GET", "foo")
    s3.send("GET", "none", asked)


@case
def names(s3: RecordingClient) -> None:
    odd: tuple[str, ...] = (
        "a b",
        "a+b",
        "a%2Fb",
        "a%b",
        "a&b=c",
        "é/ü",
        "日本",
        "~t",
        "a//b",
        "a/",
        "/lead",
        "//",
        ".",
        "..",
        "a/../b",
        "./c",
    )
    odd += (
        "(x)*'!",
        "a?b",
        "a#b",
        "a;b",
        "a:b@c",
        "$",
        "[x]",
        "\\back",
        '"quote"',
        "<tag>",
        "tab\there",
        "line\nbreak",
        "😀",
        "x" * 1024,
    )
    for name in odd:
        s3.send("PUT", name, body=name.encode())
        s3.send("GET", name)
        s3.send("HEAD", name)
    s3.send("GET")
    s3.send("GET", query={"encoding-type": "url"})
    s3.send("GET", query={"list-type": "2", "encoding-type": "url", "delimiter": "/"})
    for name in odd:
        s3.send("DELETE", name)
        s3.send("GET", name)
    s3.send("PUT", "x" * 1025)
    s3.send("GET", "x" * 1025)
    s3.send("GET", "nul\0l")


@case
def copies(s3: RecordingClient) -> None:
    bucket = s3.bucket
    kept = {"Content-Type": "text/x-one", "x-amz-meta-one": "1", "Cache-Control": "max-age=1"}
    etag = s3.send("PUT", "from here+%", headers=kept, body=b"source").etag
    source = f"/{bucket}/from%20here%2B%25"
    for given in (
        source,
        source[1:],
        f"{bucket}/none",
        "/none-such-bucket/x",
        "",
        "nonsense",
        f"/{bucket}/",
        source + "?versionId=null",
    ):
        s3.send("PUT", "to", headers={"x-amz-copy-source": given})
        s3.send("GET", "to")
    new = {
        "x-amz-copy-source": source,
        "x-amz-metadata-directive": "REPLACE",
        "x-amz-meta-two": "2",
        "Content-Type": "text/x-two",
    }
    s3.send("PUT", "to", headers=new)
    s3.send("GET", "to")
    s3.send("PUT", "to", headers=new | {"x-amz-metadata-directive": "COPY"})
    s3.send("GET", "to")
    s3.send("PUT", "to", headers=new | {"x-amz-metadata-directive": "nonsense"})
    s3.send("PUT", "from here+%", headers={"x-amz-copy-source": source})
    s3.send("PUT", "from here+%", headers=new)
    s3.send("GET", "from here+%")
    for name, right, wrong in (
        ("if-match", etag, '"other"'),
        ("if-none-match", '"other"', etag),
        ("if-modified-since", _OLD, _NEW),
        ("if-unmodified-since", _NEW, _OLD),
    ):
        for value in (right, wrong):
            s3.send("PUT", "on", headers={"x-amz-copy-source": source, f"x-amz-copy-source-{name}": value})
            s3.send("GET", "on")
            s3.send("DELETE", "on")
    s3.send("PUT", "to", headers={"x-amz-copy-source": source}, body=b"and a body")
    s3.send("GET", "to")
    s3.send("PUT", "to", headers={"x-amz-copy-source": source, "x-amz-copy-source-range": "bytes=0-1"})


@case
def batch_deletes(s3: RecordingClient) -> None:
    def delete(document: str, headers: dict[str, str] | None = None) -> None:
        body = document.encode()
        s3.send(
            "POST", query={"delete": ""}, headers={"Content-MD5": md5(body)} if headers is None else headers, body=body
        )

    def document(*keys: str, quiet: str = "") -> str:
        listed = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
        return f"<Delete>{quiet}{listed}</Delete>"

    for key in ("a", "b", "c&d", "é", "e f"):
        s3.send("PUT", key, body=b"x")
        s3.send("GET", key)
    delete(document("a", "none"))
    s3.send("GET", "a")
    delete(document("b", "c&amp;d", quiet="<Quiet>true</Quiet>"))
    s3.send("GET", "c&d")
    delete(
        '<?xml version="1.0" encoding="UTF-8"?>'
        + document("é", "e f", "e f").replace("<Delete>", '<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">')
    )
    s3.send("GET", "é")
    delete(document(*(f"many{number:04}" for number in range(1000))))
    delete(document(*(f"many{number:04}" for number in range(1001))))
    for wrong in ("", "<Delete/>", "<Delete>", "<Other/>", "nonsense", document(""), document("x" * 1025)):
        delete(wrong)
    delete(document("a"), {})
    delete(document("a"), {"Content-MD5": md5(b"other")})
    s3.send(
        "POST",
        query={"delete": "", "encoding-type": "url"},
        headers={"Content-MD5": md5(document("a").encode())},
        body=document("a").encode(),
    )
    s3.send("GET")


@case
def overwritten_while_read(s3: RecordingClient) -> None:
    for mebibytes in (1, 4, 8, 32):
        old, new = b"A" * (mebibytes << 20), b"B" * (mebibytes << 20)
        s3.interrupted(f"of-{mebibytes}-MiB", old, new)
