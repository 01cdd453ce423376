"""The AWS command line: `aws s3`, which decides by itself about parts, and `aws s3api`.

Without a configuration file: for an endpoint of one's own that is an address it takes path style by itself.
"""

import json
import os
from importlib.metadata import version
from pathlib import Path

from compat.errand import LARGE, ODD, ORDER, PLAN, SMALL, Errand, equal, fails, fetch, large_file, run, same, small_file


def main() -> None:
    errand = Errand.begin(version("awscli"))
    os.environ["AWS_ENDPOINT_URL"] = errand.endpoint  # all that is configured; each run of it takes half a second
    bucket, s3, api = errand.bucket, ("aws", "s3"), ("aws", "s3api")

    run(*s3, "cp", str(small_file()), f"s3://{bucket}/{ODD}", "--content-type", "text/odd", "--metadata", "colour=blue")
    errand.did("put")

    for _ in range(2):
        same(run(*s3, "cp", f"s3://{bucket}/{ODD}", "-"), SMALL)
    errand.again(ODD)
    head = json.loads(run(*api, "head-object", "--bucket", bucket, "--key", ODD))
    equal((head["ContentType"], head["Metadata"]), ("text/odd", {"colour": "blue"}))
    errand.did("get")

    into = Path("range.bin")
    run(*api, "get-object", "--bucket", bucket, "--key", ODD, "--range", "bytes=1000-1999", str(into))
    same(into.read_bytes(), SMALL[1000:2000])
    errand.did("range")

    run(*s3, "cp", str(large_file()), f"s3://{bucket}/large.bin")
    errand.did("parts up")

    for _ in range(2):
        run(*s3, "cp", f"s3://{bucket}/large.bin", "back.bin")
        same(Path("back.bin").read_bytes(), LARGE)
    errand.again("large.bin")
    errand.did("ranges down")

    listed = run(*s3, "ls", f"s3://{bucket}/", "--recursive").decode()
    equal(sorted(line.split(maxsplit=3)[3] for line in listed.splitlines()), sorted([ODD, "large.bin"]))
    errand.did("list")

    run(*s3, "cp", f"s3://{bucket}/large.bin", f"s3://{bucket}/copies/large.bin")
    run(*s3, "mv", f"s3://{bucket}/{ODD}", f"s3://{bucket}/copies/moved.bin")
    same(run(*s3, "cp", f"s3://{bucket}/copies/large.bin", "-"), LARGE)
    errand.did("copy")

    signed = run(*s3, "presign", f"s3://{bucket}/copies/moved.bin").decode().strip()
    same(fetch(signed), SMALL)
    errand.did("presigned")

    Path("order.txt").write_bytes(ORDER)
    run(*s3, "cp", "order.txt", f"s3://{bucket}/{PLAN}")
    equal(_plan(bucket), (3, "running"))
    listed = run(*s3, "ls", f"s3://{bucket}/.forebay/plans/", "--recursive").decode()
    equal([line.split(maxsplit=3)[3] for line in listed.splitlines()], [PLAN])
    run(*s3, "rm", f"s3://{bucket}/{PLAN}")
    fails("aws", "s3api", "get-object", "--bucket", bucket, "--key", PLAN, "progress.json")
    errand.did("plan")

    run(*s3, "rm", "--recursive", f"s3://{bucket}/copies")
    fails(*s3, "cp", f"s3://{bucket}/copies/moved.bin", "-")
    errand.did("delete")


def _plan(bucket: str) -> tuple[int, str]:
    """The entries and the state of the plan."""
    answered = json.loads(run("aws", "s3api", "get-object", "--bucket", bucket, "--key", PLAN, "progress.json"))
    content = Path("progress.json").read_bytes()
    equal(len(content), answered["ContentLength"])
    progress = json.loads(content)
    return progress["entries"], progress["state"]


main()
