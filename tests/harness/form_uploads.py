"""Form uploads (POST Object): bodies, policies, and their signatures of version 2."""

import base64
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from harness.clients import RawClient
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret

BOUNDARY = "boundary-of-the-form"


def form(fields: Mapping[str, str], file: bytes, filename: str = "up.txt", after: str = "") -> bytes:
    lines = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
    return (
        "".join([*lines, head, "Content-Type: x/y\r\n\r\n"]).encode() + file + f"\r\n{after}--{BOUNDARY}--\r\n".encode()
    )


async def post(client: RawClient, body: bytes, target: str = "/bucket", *more: tuple[str, str]) -> RawAnswer:
    return await client.unsigned(
        "POST", target, (("Content-Type", f"multipart/form-data; boundary={BOUNDARY}"), *more), body
    )


def policy_of(conditions: Sequence[object], seconds: float = 600) -> str:
    expiration = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return base64.b64encode(json.dumps({"expiration": expiration, "conditions": conditions}).encode()).decode()


def signed_v2(
    secret: Secret, conditions: Sequence[object], fields: Mapping[str, str], seconds: float = 600
) -> dict[str, str]:
    policy = policy_of(conditions, seconds)
    signature = base64.b64encode(hmac.digest(secret.secret.encode(), policy.encode(), "sha1")).decode()
    return {**fields, "AWSAccessKeyId": secret.access, "policy": policy, "signature": signature}


ANY: list[object] = [{"bucket": "bucket"}, ["starts-with", "$key", ""]]
