"""s5cmd: many at once, small parts."""

import json
from pathlib import Path

from compat.errand import LARGE, ODD, SMALL, Errand, equal, fails, fetch, large_file, run, same, small_file


def main() -> None:
    errand = Errand.begin(run("s5cmd", "version").decode().split("-")[0].strip().removeprefix("v"))
    bucket, s5cmd = errand.bucket, ("s5cmd", "--endpoint-url", errand.endpoint)

    run(*s5cmd, "cp", "--raw", "--content-type", "text/odd", str(small_file()), f"s3://{bucket}/{ODD}")
    many = Path("many")
    many.mkdir()
    for number in range(20):
        (many / f"{number:02}.bin").write_bytes(SMALL[number:])
    run(*s5cmd, "cp", f"{many}/", f"s3://{bucket}/many/")
    run(*s5cmd, "pipe", f"s3://{bucket}/piped.bin", input=SMALL)
    errand.did("put")

    for _ in range(2):
        same(run(*s5cmd, "cat", "--raw", f"s3://{bucket}/{ODD}"), SMALL)
    errand.again(ODD)
    listed(s5cmd, bucket, sorted([ODD, "piped.bin", *(f"many/{number:02}.bin" for number in range(20))]))
    run(*s5cmd, "cp", f"s3://{bucket}/many/*", "back/")
    for number in range(20):
        same(Path(f"back/{number:02}.bin").read_bytes(), SMALL[number:])
    same(run(*s5cmd, "cat", f"s3://{bucket}/piped.bin"), SMALL)
    errand.did("get")

    run(*s5cmd, "cp", "--part-size", "5", str(large_file()), f"s3://{bucket}/large.bin")
    errand.did("parts up")

    for _ in range(2):
        run(*s5cmd, "cp", "--part-size", "5", f"s3://{bucket}/large.bin", "back.bin")
        same(Path("back.bin").read_bytes(), LARGE)
    errand.again("large.bin")
    errand.did("ranges down")

    everything = sorted([ODD, "large.bin", "piped.bin", *(f"many/{number:02}.bin" for number in range(20))])
    equal(listed(s5cmd, bucket, everything), everything)
    errand.did("list")

    run(*s5cmd, "cp", "--raw", f"s3://{bucket}/{ODD}", f"s3://{bucket}/copy.bin")
    run(*s5cmd, "mv", f"s3://{bucket}/piped.bin", f"s3://{bucket}/moved.bin")
    same(run(*s5cmd, "cat", f"s3://{bucket}/copy.bin"), SMALL)
    errand.did("copy")

    run(*s5cmd, "rm", f"s3://{bucket}/many/*")
    fails(*s5cmd, "ls", f"s3://{bucket}/many/*")
    fails(*s5cmd, "cat", f"s3://{bucket}/many/00.bin")
    errand.did("delete")

    same(fetch(run(*s5cmd, "presign", f"s3://{bucket}/copy.bin").decode().strip()), SMALL)
    errand.did("presigned")


def listed(s5cmd: tuple[str, ...], bucket: str, expected: list[str]) -> list[str]:
    """What it lists; asked again for a while if that is not `expected`.

    It passes over all that is newer than the moment it began, and times of last modification are whole seconds, which
    the origin rounds up: what was written within this second is not there yet, for this client.
    """
    names: list[str] = []
    for _ in range(40):
        rows = run(*s5cmd, "--json", "ls", f"s3://{bucket}/*").splitlines()
        names = sorted(json.loads(row)["key"].removeprefix(f"s3://{bucket}/") for row in rows)
        if names == expected:
            break
    return names


main()
