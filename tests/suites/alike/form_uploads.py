"""Forms that are in order, as the browsers and tools of others send them. What is wrong with a form is judged by
Forebay alone: tests/scenarios/test_forms.py."""

import base64
import hashlib
import hmac
import json

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient, crc32


def _posted(s3: RecordingClient, fields: dict[str, str], body: bytes = b"bar", filename: str = "the.txt") -> None:
    conditions: list[object] = [{"bucket": s3.bucket}, ["content-length-range", 0, 5 << 20]]
    conditions += [["starts-with", f"${name}", ""] for name in fields if not name.lower().startswith("x-ignore-")]
    policy = base64.b64encode(json.dumps({"expiration": "2099-01-01T00:00:00Z", "conditions": conditions}).encode())
    digest = base64.b64encode(hmac.new(s3.secret_key.encode(), policy, hashlib.sha1).digest()).decode()
    signed = {"AWSAccessKeyId": s3.access_key, "signature": digest, "policy": policy.decode()}
    lines = b"".join(
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in (fields | signed).items()
    )
    lines += f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n\r\n'.encode()
    lines += body + b"\r\n--edge--\r\n"
    form = {"Content-Type": "multipart/form-data; boundary=edge", "Content-Length": str(len(lines))}
    s3.send_raw("POST", s3.path(), form, lines)


@case
def forms(s3: RecordingClient) -> None:
    _posted(s3, {"key": "foo"})
    s3.send("GET", "foo")
    _posted(s3, {"key": "foo"}, b"x" * (3 << 20))
    s3.send("GET", "foo")
    _posted(s3, {"key": "${filename}"})
    s3.send("GET", "the.txt")
    _posted(s3, {"key": "in/${filename}"}, filename="a b.txt")
    s3.send("GET", "in/a b.txt")
    _posted(s3, {"key": "\\$foo.txt"})
    s3.send("GET", "\\$foo.txt")
    _posted(s3, {"key": "foo", "Content-Type": "text/x-foo", "x-amz-meta-foo": "barclamp", "Cache-Control": "no-cache"})
    s3.send("GET", "foo")
    _posted(s3, {"key": "foo", "x-ignore-foo": "bar"})
    s3.send("GET", "foo")
    _posted(s3, {"key": "foo", "acl": "public-read"})
    s3.send("GET", "foo", {"acl": ""})
    _posted(s3, {"key": "summed", "x-amz-checksum-crc32": base64.b64encode(crc32(b"bar")).decode()})
    s3.send("HEAD", "summed", headers={"x-amz-checksum-mode": "ENABLED"})
    _posted(s3, {"key": "kept", "x-amz-server-side-encryption": "AES256", "x-amz-storage-class": "STANDARD"})
    s3.send("GET", "kept")


@case
def answers(s3: RecordingClient) -> None:
    for status in ("200", "201", "204", "404", "nonsense"):
        _posted(s3, {"key": "foo", "success_action_status": status})
        s3.send("GET", "foo")
    for url in ("http://a.example/done", "http://a.example/done?x=y"):
        _posted(s3, {"key": "a b+c", "success_action_redirect": url})
        _posted(s3, {"key": "a b+c", "redirect": url})
    s3.send("GET", "a b+c")
