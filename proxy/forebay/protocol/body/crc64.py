"""CRC-64/XZ: the checksum of objects in Alibaba OSS (x-oss-hash-crc64ecma, decimal) and of records on the SSD.

    polynomial 0x42F0E1EBA9EA3693, reflected, all ones in and out; of b"123456789" it is 0x995DC9BBDF1939FA

Not CRC-64/NVME, which S3 uses: neither can be computed from the other. docs/decisions/0013, 0023 say why by fastcrc.

https://reveng.sourceforge.io/crc-catalogue/17plus.htm#crc.cat.crc-64-xz
"""

from typing import Final

from fastcrc.crc64 import xz

crc64: Final = xz
"""Called with a contiguous buffer, and the CRC of the bytes before it if there are any; returns the CRC."""
