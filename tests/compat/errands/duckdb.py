"""DuckDB's httpfs: Parquet queried by SQL, many ranges at once, written as multipart uploads."""

import duckdb
from duckdb_extensions import import_extension

from compat.errand import Errand, equal

ROWS = 300_000
SECRET = """
create secret (type s3, key_id '{access}', secret '{secret}', region '{region}', endpoint '{address}',
               url_style 'path', use_ssl false)
"""


def main() -> None:
    errand = Errand.begin(duckdb.__version__)
    base = duckdb.connect()
    import_extension("httpfs", con=base)
    base.execute("load httpfs")
    base.execute("set enable_external_file_cache = false")  # or the second query asks nobody
    told = {"access": errand.access, "secret": errand.secret, "region": errand.region, "address": errand.address}
    base.execute(SECRET.format(**told))
    place = f"s3://{errand.bucket}"

    def ask(query: str) -> object:
        (answer,) = base.execute(query).fetchall()
        return answer

    columns = ", ".join(f"hash(i * {number}) as column{number:02}" for number in range(8))
    base.execute(f"create table numbers as select i, {columns} from range({ROWS}) as r(i)")
    layout = "(row_group_size 20000, compression uncompressed)"
    base.execute(f"copy numbers to '{place}/tables/one.parquet' {layout}")
    errand.did("put")
    base.execute("set s3_uploader_max_filesize = '50GB'")  # a ten-thousandth of it is the size of a part
    base.execute(f"copy numbers to '{place}/tables/two.parquet' {layout}")
    errand.did("parts up")

    expected = ask("select sum(hash(numbers))::varchar from numbers")
    for _ in range(2):
        got = ask(f"select sum(hash(t))::varchar from read_parquet('{place}/tables/one.parquet') as t")
        equal(got, expected)
    errand.did("get")

    expected = ask("select sum(column03)::varchar, max(column05) from numbers where i between 1000 and 30000")
    few = (
        f"select sum(column03)::varchar, max(column05) from '{place}/tables/two.parquet' where i between 1000 and 30000"
    )
    for _ in range(2):
        equal(ask(few), expected)
    errand.again("tables/two.parquet")
    errand.did("parquet")

    equal(ask(f"select count(*) from '{place}/tables/*.parquet'"), (2 * ROWS,))
    errand.did("list")


main()
