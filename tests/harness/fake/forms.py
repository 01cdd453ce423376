"""PostObject: a form of multipart/form-data, whose fields are the headers of a PutObject.

Its policy and signature are believed: what Forebay accepts of them is tried in tests/security.
https://docs.aws.amazon.com/AmazonS3/latest/API/RESTObjectPOST.html
"""

import re
from dataclasses import replace
from urllib.parse import quote

from multidict import CIMultiDict, CIMultiDictProxy

from harness.fake import documents, objects
from harness.fake.errors import Refusal
from harness.fake.payload import Payload, checksums_of
from harness.fake.responses import Answer, document
from harness.fake.s3_request import S3Request
from harness.fake.store import Store


def post(store: Store, s3_request: S3Request, bucket: str, payload: Payload) -> Answer:
    """Stores the file, and answers as the form says: 200, 201 or 204."""
    kind = s3_request.headers.get("Content-Type", "")
    if not kind.startswith("multipart/form-data"):
        raise Refusal("PreconditionFailed", "Bucket POST must be of the enclosure-type multipart/form-data")
    store.bucket(bucket)
    fields, content, filename = CIMultiDict[str](), b"", ""
    for part in payload.body.split(b"--" + kind.partition("boundary=")[2].strip('"').encode())[1:-1]:
        head, _, body = part.removesuffix(b"\r\n").partition(b"\r\n\r\n")
        names = dict(re.findall(r'(name|filename)="([^"]*)"', head.decode()))
        if names["name"] == "file":
            content, filename = body, names.get("filename", "")
        else:
            fields["x-amz-acl" if names["name"] == "acl" else names["name"]] = body.decode()
    key = fields.pop("key").replace("${filename}", filename)
    put = replace(s3_request, key=key, headers=CIMultiDictProxy(fields), operation="PutObject")
    stored = objects.put(store, put, bucket, key, checksums_of(put, content, {}))
    location = f"/{bucket}/{quote(key, safe='/~')}"
    headers = (*stored.headers, ("Location", location))
    match fields.get("success_action_status"):
        case "201":
            etag = dict(stored.headers)["ETag"]
            said = [("Location", location), ("Bucket", bucket), ("Key", key), ("ETag", etag)]
            return document(documents.xml("PostResponse", said), 201, headers)
        case "200":
            return Answer(200, headers)
        case _:
            return Answer(204, headers)
