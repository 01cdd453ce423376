"""s3fs-fuse: a bucket as a folder. Every look at a file is a HEAD."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from compat.errand import LARGE, SMALL, Errand, equal, large_file, run, same


def main() -> None:
    errand = Errand.begin(run("s3fs", "--version").decode().splitlines()[0].split("V")[1].split()[0])
    key = "folder/sp ace+plus&and=is~(1)%2F#ü€.bin"

    with mounted(errand, "first") as folder:
        (folder / "folder").mkdir()
        (folder / key).write_bytes(SMALL)
        errand.did("put")
        shutil.copyfile(large_file(), folder / "large.bin")
        errand.did("parts up")

    # Mounted anew twice, so that nothing comes from the kernel's memory or the client's own files.
    for name in ("second", "third"):
        with mounted(errand, name) as folder:
            same((folder / key).read_bytes(), SMALL)
            same((folder / "large.bin").read_bytes(), LARGE)
            equal((folder / key).stat().st_size, len(SMALL))
    errand.again(key)
    errand.did("get")
    errand.again("large.bin")
    errand.did("ranges down")

    with mounted(errand, "fourth") as folder:
        with (folder / "large.bin").open("rb") as file:
            file.seek(7_000_000)
            same(file.read(1000), LARGE[7_000_000:7_001_000])
        errand.did("range")
        equal(sorted(os.listdir(folder)), ["folder", "large.bin"])  # noqa: PTH208 # what a file system has to do
        errand.did("list")
        (folder / key).rename(folder / "moved.bin")
        same((folder / "moved.bin").read_bytes(), SMALL)
        errand.did("copy")
        (folder / "moved.bin").unlink()
        (folder / "folder").rmdir()
        equal(os.listdir(folder), ["large.bin"])  # noqa: PTH208 # likewise
        errand.did("delete")


@contextlib.contextmanager
def mounted(errand: Errand, name: str) -> Iterator[Path]:
    """The bucket as a folder."""
    folder = Path(name).absolute()
    folder.mkdir()
    passwords = Path("passwords")
    passwords.write_text(f"{errand.access}:{errand.secret}\n", encoding="utf-8")
    passwords.chmod(0o600)
    options = f"passwd_file={passwords.absolute()},url={errand.endpoint},use_path_request_style,sigv4"
    options += f",endpoint={errand.region},multipart_size=5"
    # In the foreground, so that the process is ours to wait for. It logs to standard output, where the errand tells.
    process = subprocess.Popen(["s3fs", errand.bucket, str(folder), "-f", "-o", options], stdout=sys.stderr)
    try:
        while not folder.is_mount():
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"s3fs ended with {process.wait(timeout=0.05)}")
        yield folder
    finally:
        subprocess.run(["fusermount3", "-u", str(folder)], check=False)
        process.wait(timeout=30)


main()
