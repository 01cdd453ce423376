"""fsspec's s3fs: files with read-ahead, over aiobotocore."""

import s3fs

from compat.errand import LARGE, ODD, SMALL, Errand, equal, fetch, large_file, same

PARTS = 5 << 20


def main() -> None:
    errand = Errand.begin(s3fs.__version__)
    system = s3fs.S3FileSystem(
        client_kwargs={"endpoint_url": errand.endpoint},
        config_kwargs={"s3": {"addressing_style": "path"}},
        use_listings_cache=False,
    )
    bucket = errand.bucket

    system.pipe_file(f"{bucket}/{ODD}", SMALL)
    with system.open(f"{bucket}/streamed.bin", "wb") as file:
        file.write(SMALL)
    errand.did("put")

    for _ in range(2):
        same(system.cat_file(f"{bucket}/{ODD}"), SMALL)
    errand.again(ODD)
    with system.open(f"{bucket}/streamed.bin", "rb") as file:
        same(file.read(), SMALL)
    equal(system.info(f"{bucket}/{ODD}")["size"], len(SMALL))
    errand.did("get")

    same(system.cat_file(f"{bucket}/{ODD}", start=1000, end=2000), SMALL[1000:2000])
    with system.open(f"{bucket}/{ODD}", "rb", block_size=4096) as file:
        file.seek(-7, 2)
        same(file.read(), SMALL[-7:])
    errand.did("range")

    system.put_file(str(large_file()), f"{bucket}/large.bin", chunksize=PARTS)
    with system.open(f"{bucket}/appended.bin", "wb", block_size=PARTS) as file:
        file.write(LARGE)
    for _ in range(2):
        same(system.cat_file(f"{bucket}/large.bin"), LARGE)
    errand.again("large.bin")
    with system.open(f"{bucket}/appended.bin", "rb") as file:
        same(file.read(), LARGE)
    errand.did("parts up")

    found = system.find(bucket)
    equal(found, sorted(f"{bucket}/{key}" for key in (ODD, "streamed.bin", "large.bin", "appended.bin")))
    equal([row["name"] for row in system.ls(bucket, detail=True) if row["type"] == "directory"], [f"{bucket}/odd"])
    errand.did("list")

    system.cp_file(f"{bucket}/{ODD}", f"{bucket}/copies/copy.bin")
    system.mv(f"{bucket}/streamed.bin", f"{bucket}/copies/moved.bin")
    same(system.cat_file(f"{bucket}/copies/moved.bin"), SMALL)
    errand.did("copy")

    same(fetch(system.sign(f"{bucket}/copies/copy.bin")), SMALL)
    errand.did("presigned")

    system.rm(f"{bucket}/copies", recursive=True)
    equal(system.exists(f"{bucket}/copies/copy.bin"), False)
    errand.did("delete")


main()
