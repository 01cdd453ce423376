"""Blocks in memory that the kernel can send by itself.

A block of the memory tier is a buffer of the process, and sending it copies it. One that lies in a file that exists in
memory alone (memfd_create) can be sent as files are: its pages are handed to the socket, none is copied. So what is
asked for often is moved there: the same bytes, in a mapping of such a file, which is a buffer like any other.

A file holds one block, is written once, before anybody sees it, and closed when the last who uses it lets go. Its pages
live until the last socket that was handed them has sent them: bytes are never changed under a client.

https://man7.org/linux/man-pages/man2/memfd_create.2.html
"""

import mmap
import os
import resource
from typing import Final

from forebay.stores.contract import Buffer

SHORTEST: Final = 128 << 10
"""Bytes of an answer from which on it pays: below, handing over pages costs what copying them costs."""
_SHARE: Final = 8
"""Of the files that the process may open, one in so many may be a block; each takes two descriptors."""
_MOST: Final = 16_384
"""Of mappings, a process may have 65,530 (vm.max_map_count)."""


class SharedBlock(mmap.mmap):
    """The bytes of a block; `fd` is the file. A memoryview's `obj` tells whether it is of one."""

    count = 0
    """How many there are in this process."""

    fd = -1
    """Negative as long as it is not ours: of one that could not be mapped, whose end comes all the same."""

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            SharedBlock.count -= 1


def shared(buffer: Buffer) -> Buffer | None:
    """The same bytes in a block that can be sent as it is; None if there can't be one more. Copies, so not for the
    event loop."""
    most = min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // (2 * _SHARE))
    if SharedBlock.count >= most or not buffer:
        return None
    try:
        fd = os.memfd_create("forebay-block", os.MFD_CLOEXEC)
    except OSError:
        return None
    try:
        left = buffer
        while left:
            left = left[os.write(fd, left) :]
        block = SharedBlock(fd, len(buffer), prot=mmap.PROT_READ)
    except OSError:
        os.close(fd)
        return None
    block.fd = fd
    SharedBlock.count += 1
    return memoryview(block)
