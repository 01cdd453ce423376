"""The AWS command line: `aws s3`, which decides by itself about parts, and `aws s3api`.

Without a configuration file: for an endpoint of one's own that is an address it takes path style by itself.

The first command starts `aws`. The others are forked from this process, which has its modules imported, as a start of
the interpreter and the imports are two thirds of a command's CPU.
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile

from awscli.clidriver import main as run_aws

from compat.errand import LARGE, ODD, ORDER, PLAN, SMALL, Errand, equal, fetch, large_file, run, same, small_file


def main() -> None:
    errand = Errand.begin(version("awscli"))
    os.environ["AWS_ENDPOINT_URL"] = errand.endpoint  # all that is configured
    bucket = errand.bucket

    run(
        "aws",
        "s3",
        "cp",
        str(small_file()),
        f"s3://{bucket}/{ODD}",
        "--content-type",
        "text/odd",
        "--metadata",
        "colour=blue",
    )
    errand.did("put")

    for _ in range(2):
        same(aws("s3", "cp", f"s3://{bucket}/{ODD}", "-"), SMALL)
    errand.again(ODD)
    head = json.loads(aws("s3api", "head-object", "--bucket", bucket, "--key", ODD))
    equal((head["ContentType"], head["Metadata"]), ("text/odd", {"colour": "blue"}))
    errand.did("get")

    into = Path("range.bin")
    aws("s3api", "get-object", "--bucket", bucket, "--key", ODD, "--range", "bytes=1000-1999", str(into))
    same(into.read_bytes(), SMALL[1000:2000])
    errand.did("range")

    aws("s3", "cp", str(large_file()), f"s3://{bucket}/large.bin")
    errand.did("parts up")

    for _ in range(2):
        aws("s3", "cp", f"s3://{bucket}/large.bin", "back.bin")
        same(Path("back.bin").read_bytes(), LARGE)
    errand.again("large.bin")
    errand.did("ranges down")

    listed = aws("s3", "ls", f"s3://{bucket}/", "--recursive").decode()
    equal(sorted(line.split(maxsplit=3)[3] for line in listed.splitlines()), sorted([ODD, "large.bin"]))
    errand.did("list")

    aws("s3", "cp", f"s3://{bucket}/large.bin", f"s3://{bucket}/copies/large.bin")
    aws("s3", "mv", f"s3://{bucket}/{ODD}", f"s3://{bucket}/copies/moved.bin")
    same(aws("s3", "cp", f"s3://{bucket}/copies/large.bin", "-"), LARGE)
    errand.did("copy")

    signed = aws("s3", "presign", f"s3://{bucket}/copies/moved.bin").decode().strip()
    same(fetch(signed), SMALL)
    errand.did("presigned")

    Path("order.txt").write_bytes(ORDER)
    aws("s3", "cp", "order.txt", f"s3://{bucket}/{PLAN}")
    equal(_plan(bucket), (3, "running"))
    listed = aws("s3", "ls", f"s3://{bucket}/.forebay/plans/", "--recursive").decode()
    equal([line.split(maxsplit=3)[3] for line in listed.splitlines()], [PLAN])
    aws("s3", "rm", f"s3://{bucket}/{PLAN}")
    fails("s3api", "get-object", "--bucket", bucket, "--key", PLAN, "progress.json")
    errand.did("plan")

    aws("s3", "rm", "--recursive", f"s3://{bucket}/copies")
    fails("s3", "cp", f"s3://{bucket}/copies/moved.bin", "-")
    errand.did("delete")


def aws(*arguments: str) -> bytes:
    """Runs a command; its standard output. Raises with what it complained of."""
    code, output, complaint = _forked(arguments)
    if code:
        raise AssertionError(f"{' '.join(arguments)}: {code}: {complaint.decode()} {output.decode()}")
    return output


def fails(*arguments: str) -> None:
    """Runs a command that must not succeed: what it asks for is gone."""
    if not _forked(arguments)[0]:
        raise AssertionError(f"{' '.join(arguments)} succeeded")


def _forked(arguments: tuple[str, ...]) -> tuple[int, bytes, bytes]:
    """Runs a command in a fork. Returns its exit code, its standard output and its standard error."""
    with TemporaryFile() as output, TemporaryFile() as complaint:
        pid = os.fork()
        if not pid:
            os.dup2(output.fileno(), 1)
            os.dup2(complaint.fileno(), 2)
            sys.argv = ["aws", *arguments]
            code = 255
            try:
                code = run_aws()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        output.seek(0)
        complaint.seek(0)
        return code, output.read(), complaint.read()


def _plan(bucket: str) -> tuple[int, str]:
    """The entries and the state of the plan."""
    answered = json.loads(aws("s3api", "get-object", "--bucket", bucket, "--key", PLAN, "progress.json"))
    content = Path("progress.json").read_bytes()
    equal(len(content), answered["ContentLength"])
    progress = json.loads(content)
    return progress["entries"], progress["state"]


main()
