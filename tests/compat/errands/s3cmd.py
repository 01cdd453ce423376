"""s3cmd: parts of 5 MiB, one after the other."""

from pathlib import Path

from compat.errand import LARGE, ODD, SMALL, Errand, equal, fails, fetch, large_file, run, same, small_file

CONFIGURATION = """\
[default]
access_key = {access}
secret_key = {secret}
host_base = {address}
host_bucket = {address}
use_https = False
multipart_chunk_size_mb = 5
"""


def main() -> None:
    errand = Errand.begin(run("s3cmd", "--version").decode().split()[-1])
    told = CONFIGURATION.format(access=errand.access, secret=errand.secret, address=errand.address)
    Path("s3cmd.ini").write_text(told, encoding="utf-8")
    bucket, s3cmd = errand.bucket, ("s3cmd", "-c", "s3cmd.ini", "--quiet")

    run(*s3cmd, "put", "--mime-type", "text/odd", str(small_file()), f"s3://{bucket}/{ODD}")
    errand.did("put")

    for number in range(2):
        run(*s3cmd, "get", f"s3://{bucket}/{ODD}", f"back{number}.bin")
        same(Path(f"back{number}.bin").read_bytes(), SMALL)
    errand.again(ODD)
    errand.did("get")

    partial = Path("partial.bin")
    partial.write_bytes(SMALL[:1000])
    run(*s3cmd, "get", "--continue", f"s3://{bucket}/{ODD}", str(partial))
    same(partial.read_bytes(), SMALL)
    errand.did("range")

    run(*s3cmd, "put", str(large_file()), f"s3://{bucket}/large.bin")
    for number in range(2):
        run(*s3cmd, "get", f"s3://{bucket}/large.bin", f"large{number}.bin")
        same(Path(f"large{number}.bin").read_bytes(), LARGE)
    errand.again("large.bin")
    errand.did("parts up")

    listed = run("s3cmd", "-c", "s3cmd.ini", "ls", "--recursive", f"s3://{bucket}").decode()
    names = sorted(line.partition(f"s3://{bucket}/")[2] for line in listed.splitlines())
    equal(names, sorted([ODD, "large.bin"]))
    errand.did("list")

    run(*s3cmd, "cp", f"s3://{bucket}/{ODD}", f"s3://{bucket}/copies/copy.bin")
    run(*s3cmd, "mv", f"s3://{bucket}/{ODD}", f"s3://{bucket}/copies/moved.bin")
    run(*s3cmd, "get", f"s3://{bucket}/copies/moved.bin", "moved.bin")
    same(Path("moved.bin").read_bytes(), SMALL)
    errand.did("copy")

    signed = run("s3cmd", "-c", "s3cmd.ini", "signurl", f"s3://{bucket}/copies/copy.bin", "+600").decode().strip()
    same(fetch(signed), SMALL)
    errand.did("presigned")

    run(*s3cmd, "del", "--recursive", "--force", f"s3://{bucket}/copies")
    fails(*s3cmd, "get", "--force", f"s3://{bucket}/copies/copy.bin", "gone.bin")
    errand.did("delete")


main()
