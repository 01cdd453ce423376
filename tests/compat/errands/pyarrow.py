"""pyarrow's own S3 file system (the AWS SDK for C++): files, and Parquet by columns."""

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from pyarrow.fs import FileSelector, FileType, S3FileSystem

from compat.errand import LARGE, ODD, SMALL, Errand, equal, same

ROWS, COLUMNS = 20_000, 30


def main() -> None:
    errand = Errand.begin(pyarrow.__version__)
    system = S3FileSystem(endpoint_override=errand.address, scheme="http", region=errand.region)
    bucket = errand.bucket

    def write(key: str, content: bytes) -> None:
        with system.open_output_stream(f"{bucket}/{key}") as file:
            file.write(content)

    def read(key: str) -> bytes:
        with system.open_input_stream(f"{bucket}/{key}") as file:
            content: bytes = file.read()
            return content

    write(ODD, SMALL)
    for _ in range(2):
        same(read(ODD), SMALL)
    errand.again(ODD)
    equal(system.get_file_info(f"{bucket}/{ODD}").size, len(SMALL))
    errand.did("get")

    with system.open_input_file(f"{bucket}/{ODD}") as file:
        same(file.read_at(1000, 1000), SMALL[1000:2000])
        file.seek(len(SMALL) - 7)
        same(file.read(), SMALL[-7:])
    errand.did("range")

    with system.open_output_stream(f"{bucket}/large.bin") as file:
        for start in range(0, len(LARGE), 1 << 20):
            file.write(LARGE[start : start + (1 << 20)])
    for _ in range(2):
        same(read("large.bin"), LARGE)
    errand.again("large.bin")
    errand.did("parts up")

    found = system.get_file_info(FileSelector(bucket, recursive=True))
    files = sorted(row.path for row in found if row.type == FileType.File)
    equal(files, sorted([f"{bucket}/{ODD}", f"{bucket}/large.bin"]))
    equal([row.path for row in system.get_file_info(FileSelector(f"{bucket}/odd"))], [f"{bucket}/{ODD}"])
    errand.did("list")

    system.copy_file(f"{bucket}/{ODD}", f"{bucket}/copied.bin")
    system.move(f"{bucket}/copied.bin", f"{bucket}/moved.bin")
    same(read("moved.bin"), SMALL)
    errand.did("copy")

    system.delete_file(f"{bucket}/moved.bin")
    equal(system.get_file_info(f"{bucket}/moved.bin").type, FileType.NotFound)
    errand.did("delete")

    columns = {f"column{number:02}": [row * number for row in range(ROWS)] for number in range(COLUMNS)}
    table = pyarrow.table(columns)
    for name in ("parquet/one.parquet", "parquet/two.parquet"):
        pyarrow.parquet.write_table(table, f"{bucket}/{name}", filesystem=system, row_group_size=ROWS // 8)
    wanted = ["column03", "column17"]
    for _ in range(2):
        part = pyarrow.parquet.read_table(f"{bucket}/parquet/one.parquet", columns=wanted, filesystem=system)
        equal(part.equals(table.select(wanted)), True)
    errand.again("parquet/one.parquet")
    both = pyarrow.dataset.dataset(f"{bucket}/parquet", filesystem=system, format="parquet")
    few = both.to_table(columns=["column05"], filter=pyarrow.dataset.field("column01") < 10)
    equal(few.column("column05").to_pylist(), [row * 5 for row in range(10)] * 2)
    errand.did("parquet")


main()
