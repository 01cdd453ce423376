"""Presigned URLs of both versions, anonymous requests, forms, preflights."""

import base64
import hashlib
import hmac
import json
import re

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient


@case
def presigned(s3: RecordingClient) -> None:
    s3.send_raw("PUT", s3.url("PUT", "foo"), {"Content-Length": "3"}, b"bar")
    for version in (4, 2):
        s3.send_raw("GET", s3.url("GET", "foo", version=version), {})
        s3.send_raw("HEAD", s3.url("HEAD", "foo", version=version), {})
        s3.send_raw("HEAD", s3.url("GET", "foo", version=version), {})
    s3.send_raw("GET", s3.url("GET", "foo", query="?response-content-type=text/x&response-cache-control=no-cache"), {})
    s3.send_raw("GET", s3.url("GET", "foo"), {"Range": "bytes=0-0"})
    s3.send_raw("GET", s3.url("GET", "none"), {})
    s3.send_raw("GET", s3.url("GET", "foo", 604_800), {})
    for seconds in (0, -1, 604_801, 10**9):
        s3.send_raw("GET", s3.url("GET", "foo", seconds), {})
    good = s3.url("GET", "foo")
    s3.send_raw("GET", good[:-1] + ("0" if good[-1] != "0" else "1"), {})
    s3.send_raw("PUT", good, {"Content-Length": "3"}, b"bar")
    s3.send_raw("GET", good.replace("/foo?", "/other?"), {})
    s3.send_raw("GET", good + "&x=y", {})
    s3.send_raw("GET", re.sub("X-Amz-Expires=60", "X-Amz-Expires=x", good), {})
    s3.send_raw("GET", re.sub("&X-Amz-Signature=[0-9a-f]+", "", good), {})
    s3.send_raw("GET", re.sub("X-Amz-Date=[0-9]{4}", "X-Amz-Date=2019", good), {})
    s3.send_raw("DELETE", s3.url("DELETE", "foo"), {})
    s3.send_raw("GET", good, {})
    private = {"x-amz-acl": "private", "Content-Length": "3"}
    s3.send_raw("PUT", s3.url("PUT", "foo", query="?x-amz-acl=private"), private, b"bar")
    s3.send_raw("PUT", s3.url("PUT", "foo"), private, b"baz")
    s3.send_raw("GET", s3.url("GET", "foo"), {})
    s3.send_raw("PUT", s3.url("PUT", "foo", -1000), {"Content-Length": "3"}, b"bar")


@case
def nobody(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"bar")
    s3.send("PUT", "open", headers={"x-amz-acl": "public-read"}, body=b"bar")
    for key in ("foo", "open", "none"):
        s3.send("GET", key, signed=False)
        s3.send("HEAD", key, signed=False)
    s3.send("PUT", "foo", signed=False, body=b"x")
    s3.send("DELETE", "foo", signed=False)
    s3.send("GET", signed=False)
    s3.send("GET", bucket="alike-no-such-bucket", signed=False)
    s3.send("GET", "foo")


@case
def forms(s3: RecordingClient) -> None:
    def post(changes: dict[str, str | None], conditions: list[object] | None = None, body: bytes = b"bar") -> None:
        policy = {
            "expiration": "2099-01-01T00:00:00Z",
            "conditions": conditions
            if conditions is not None
            else [
                {"bucket": s3.bucket},
                ["starts-with", "$key", "foo"],
                {"acl": "private"},
                ["starts-with", "$Content-Type", "text/"],
                ["content-length-range", 0, 1024],
            ],
        }
        signed = base64.b64encode(json.dumps(policy).encode())
        digest = base64.b64encode(hmac.new(s3.secret_key.encode(), signed, hashlib.sha1).digest()).decode()
        fields: dict[str, str | None] = {
            "key": "foo.txt",
            "AWSAccessKeyId": s3.access_key,
            "acl": "private",
            "signature": digest,
            "policy": signed.decode(),
            "Content-Type": "text/plain",
        }
        fields |= changes
        lines = b""
        for name, value in fields.items():
            if value is not None:
                lines += f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        lines += (
            b'--edge\r\nContent-Disposition: form-data; name="file"; filename="the.txt"\r\n\r\n'
            + body
            + b"\r\n--edge--\r\n"
        )
        s3.send_raw(
            "POST",
            s3.path(),
            {"Content-Type": "multipart/form-data; boundary=edge", "Content-Length": str(len(lines))},
            lines,
        )
        s3.send("GET", str(fields["key"]))

    post({})
    post({"key": "foo-${filename}"})
    post({"success_action_status": "201"})
    post({"signature": "wrong"})
    post({"policy": "nonsense"})
    post({"AWSAccessKeyId": "foo"})
    post({"key": "bar.txt"})
    post({}, body=b"x" * 2000)
    post({"signature": None})
    post({"Content-Type": None})


@case
def preflights(s3: RecordingClient) -> None:
    asked = {"Origin": "http://a.example", "Access-Control-Request-Method": "GET"}
    s3.send("PUT", "foo", body=b"bar")
    s3.send("OPTIONS", "foo", signed=False, unsigned=asked)
    rule = b"<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*.example</AllowedOrigin></CORSRule>"
    s3.send("PUT", query={"cors": ""}, body=b"<CORSConfiguration>" + rule + b"</CORSConfiguration>")
    s3.send("OPTIONS", "foo", signed=False, unsigned=asked)
    s3.send("OPTIONS", "foo", signed=False)
    s3.send_raw("OPTIONS", s3.url("GET", "foo"), {})
    s3.send_raw("OPTIONS", s3.url("GET", "foo"), asked)
    s3.send_raw("GET", s3.url("GET", "foo"), asked)
    s3.send("GET", "foo", unsigned={"Origin": "http://a.example"})
    s3.send("GET", "foo", unsigned={"Origin": "http://other.org"})
    s3.send("GET", query={"cors": ""})
