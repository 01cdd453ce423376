"""polars (the Rust object_store): Parquet scanned by columns and rows, written by sink."""

import polars

from compat.errand import Errand, equal

ROWS, COLUMNS = 20_000, 30


def main() -> None:
    errand = Errand.begin(polars.__version__)
    options = {"aws_endpoint_url": errand.endpoint, "aws_allow_http": "true"}
    table = polars.DataFrame({f"column{n:02}": [row * n for row in range(ROWS)] for n in range(COLUMNS)})
    place = f"s3://{errand.bucket}/tables"

    for name in ("one", "two"):
        table.write_parquet(f"{place}/{name}.parquet", storage_options=options, row_group_size=ROWS // 8)
    table.lazy().sink_csv(f"s3://{errand.bucket}/text/table.csv", storage_options=options)
    errand.did("put")

    for _ in range(2):
        equal(polars.read_parquet(f"{place}/one.parquet", storage_options=options).equals(table), True)
    back = polars.scan_csv(f"s3://{errand.bucket}/text/table.csv", storage_options=options).collect()
    equal(back.equals(table), True)
    errand.did("get")

    wanted = ["column03", "column17"]
    for _ in range(2):
        scan = polars.scan_parquet(f"{place}/two.parquet", storage_options=options)
        equal(scan.select(wanted).collect().equals(table.select(wanted)), True)
        few = scan.filter(polars.col("column01") < 10).select("column05").collect()
        equal(few["column05"].to_list(), [row * 5 for row in range(10)])
    errand.again("tables/two.parquet")
    errand.did("parquet")

    both = polars.scan_parquet(f"{place}/*.parquet", storage_options=options).select(polars.len()).collect()
    equal(both.item(), 2 * ROWS)
    errand.did("list")


main()
