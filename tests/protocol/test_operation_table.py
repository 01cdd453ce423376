"""The operation table against botocore's model of S3."""

from typing import Any

import botocore.session
import pytest

from forebay.protocol.operation_table import OPERATIONS, QUALIFIERS, SELECTORS, Effect, OperationRow, Treatment

# Older names of operations with the same request, and one operation that only the endpoint distinguishes.
SAME_ON_THE_WIRE = {
    "GetBucketLifecycle": "GetBucketLifecycleConfiguration",
    "GetBucketNotification": "GetBucketNotificationConfiguration",
    "ListDirectoryBuckets": "ListBuckets",
    "PutBucketLifecycle": "PutBucketLifecycleConfiguration",
    "PutBucketNotification": "PutBucketNotificationConfiguration",
}
MODEL: Any = botocore.session.Session().get_service_model("s3")
ROWS = {row.name: row for row in OPERATIONS}


@pytest.mark.parametrize("name", MODEL.operation_names)
def test_every_operation_of_the_api_has_a_row(name: str) -> None:
    row = ROWS[SAME_ON_THE_WIRE.get(name, name)]
    http = MODEL.operation_model(name).http
    path, _, query = http["requestUri"].partition("?")
    assert row.method == http["method"]
    assert row.level == ("object" if "{Key" in path else "bucket" if path != "/" else "service")
    for pair in filter(None, query.split("&")):
        assert pair.partition("=")[0] in row.required | row.optional


@pytest.mark.parametrize("name", [name for name in MODEL.operation_names if name not in SAME_ON_THE_WIRE])
def test_a_row_has_every_query_name_of_its_operation(name: str) -> None:
    row = ROWS[name]
    shape = MODEL.operation_model(name).input_shape
    members = shape.members.values() if shape is not None else ()
    known = {
        member.serialization["name"] for member in members if member.serialization.get("location") == "querystring"
    }
    assert known <= row.required | row.optional


def test_names_and_signatures_are_unique() -> None:
    assert len(ROWS) == len(OPERATIONS)
    signatures = [(row.level, row.method, row.required, row.is_copy) for row in OPERATIONS if not row.refused]
    assert len(set(signatures)) == len(signatures)


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.name)
def test_reads_have_no_effect_and_every_row_has_a_reason(row: OperationRow) -> None:
    assert row.why.endswith(".")
    if row.method in {"GET", "HEAD"}:
        assert row.effect is Effect.NOTHING
    assert (row.treatment is Treatment.CACHED) == (row.name in {"GetObject", "HeadObject"})


def test_qualifiers_select_no_operation() -> None:
    assert not QUALIFIERS & SELECTORS
