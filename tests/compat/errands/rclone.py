"""rclone: many HEADs, its own modification time in the metadata, hash checks after each transfer."""

import os
from pathlib import Path

from compat.errand import LARGE, ODD, SMALL, Errand, equal, fetch, large_file, run, same, small_file


def main() -> None:
    errand = Errand.begin(run("rclone", "version").decode().split()[1].removeprefix("v"))
    settings = {"TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": errand.endpoint, "FORCE_PATH_STYLE": "true"}
    settings |= {"ENV_AUTH": "true", "REGION": errand.region, "CHUNK_SIZE": "5Mi", "UPLOAD_CUTOFF": "5Mi"}
    os.environ.update({f"RCLONE_CONFIG_FOREBAY_{name}": value for name, value in settings.items()})
    bucket = f"forebay:{errand.bucket}"

    run("rclone", "copyto", str(small_file()), f"{bucket}/{ODD}")
    run("rclone", "rcat", f"{bucket}/piped.bin", input=SMALL)
    errand.did("put")

    for _ in range(2):
        same(run("rclone", "cat", f"{bucket}/{ODD}"), SMALL)
    errand.again(ODD)
    same(run("rclone", "cat", f"{bucket}/piped.bin"), SMALL)
    run("rclone", "copyto", str(small_file()), f"{bucket}/checked/small.bin")
    run("rclone", "check", "--download", "--one-way", "--include", "small.bin", ".", f"{bucket}/checked")
    errand.did("get")

    same(run("rclone", "cat", "--offset", "1000", "--count", "1000", f"{bucket}/{ODD}"), SMALL[1000:2000])
    errand.did("range")

    run("rclone", "copyto", str(large_file()), f"{bucket}/large.bin")
    errand.did("parts up")

    for _ in range(2):
        streams = ("--multi-thread-cutoff", "5Mi", "--multi-thread-streams", "4", "--multi-thread-chunk-size", "2Mi")
        run("rclone", "copyto", *streams, f"{bucket}/large.bin", "back.bin")
        same(Path("back.bin").read_bytes(), LARGE)
        Path("back.bin").unlink()
    errand.again("large.bin")
    errand.did("ranges down")

    listed = run("rclone", "lsf", "--recursive", "--files-only", bucket).decode().splitlines()
    equal(sorted(listed), sorted([ODD, "checked/small.bin", "large.bin", "piped.bin"]))
    equal(run("rclone", "lsf", "--dirs-only", bucket).decode().split(), ["checked/", "odd/"])
    errand.did("list")

    run("rclone", "copyto", f"{bucket}/{ODD}", f"{bucket}/copies/copy.bin")
    run("rclone", "moveto", f"{bucket}/piped.bin", f"{bucket}/copies/moved.bin")
    same(run("rclone", "cat", f"{bucket}/copies/moved.bin"), SMALL)
    errand.did("copy")

    same(fetch(run("rclone", "link", "--expire", "10m", f"{bucket}/copies/copy.bin").decode().strip()), SMALL)
    errand.did("presigned")

    run("rclone", "deletefile", f"{bucket}/copies/copy.bin")
    equal(run("rclone", "lsf", "--files-only", f"{bucket}/copies").decode().split(), ["moved.bin"])
    run("rclone", "purge", f"{bucket}/copies")
    equal(run("rclone", "lsf", "--dirs-only", bucket).decode().split(), ["checked/", "odd/"])
    errand.did("delete")


main()
