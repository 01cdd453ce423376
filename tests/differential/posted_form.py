"""A form upload, signed by its policy: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-post-example.html."""

import hmac
import json
from base64 import b64encode
from typing import Final

from harness.reference_sigv4 import Secret, timestamp_of

_BOUNDARY: Final = "4b1d-boundary"
FORM_TYPE: Final = f"multipart/form-data; boundary={_BOUNDARY}"


def posted_form(secret: Secret, bucket: str, fields: list[tuple[str, str]], file: bytes, now: float) -> bytes:
    """The body of a form whose policy allows these fields and nothing else."""
    timestamp = timestamp_of(now)
    scope = (timestamp[:8], secret.region, "s3", "aws4_request")
    fields = [
        *fields,
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", "/".join((secret.access, *scope))),
        ("x-amz-date", timestamp),
    ]
    conditions = [{name: value} for name, value in (("bucket", bucket), *fields)]
    policy = b64encode(json.dumps({"expiration": "2099-01-01T00:00:00Z", "conditions": conditions}).encode()).decode()
    key = f"AWS4{secret.secret}".encode()
    for word in (*scope, policy):
        key = hmac.digest(key, word.encode(), "sha256")
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in (*fields, ("policy", policy), ("x-amz-signature", key.hex()))
    ]
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a file"\r\n\r\n'.encode()
    return b"".join((*parts, head, file, f"\r\n--{_BOUNDARY}--\r\n".encode()))
