"""A fake origin whose buckets have an owner, which requests may expect (x-amz-expected-bucket-owner)."""

from harness.fake.actions import Respond
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin

OWNER, OTHER_OWNER, NO_OWNER = "123456789012", "210987654321", "nobody"
EXPECTED = "x-amz-expected-bucket-owner"


def owned(origin: FakeOrigin) -> None:
    """The origin compares the owner that requests expect."""

    def differs(asked: S3Request) -> bool:
        return asked.headers.get(EXPECTED, OWNER) not in {OWNER, NO_OWNER}

    origin.faults.add(Respond(403, "AccessDenied"), where=differs)
    malformed = Respond(400, "InvalidBucketOwnerAWSAccountID")
    origin.faults.add(malformed, where=lambda asked: asked.headers.get(EXPECTED) == NO_OWNER)
