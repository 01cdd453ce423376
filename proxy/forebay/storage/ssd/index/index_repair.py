"""Repair: the index is checked before LMDB maps it, and rebuilt if it is damaged or suspect.

    after a clean end        a sample of its pages is checked, all of a small index
    after an unclean end     all pages are checked, of the first five million rows or so
    suspect                  it is rebuilt without a check: this process or one before found damage in it, or three
                             runs in a row ended uncleanly, which may be due to damage that no check finds

A rebuild loses only what was on damaged pages, so that a suspicion without reason costs time and a conditional request
for each object, and nothing else.
"""

import os

from forebay.core.errors import IndexDamaged
from forebay.storage.ssd.index.index_check import AFTER_CLEAN_END, AFTER_UNCLEAN_END, check_index
from forebay.storage.ssd.index.index_rebuild import rebuild_index
from forebay.storage.ssd.index.lmdb_file import DATA_FILE
from forebay.storage.ssd.segments.addressing import Addressing
from forebay.storage.ssd.ssd_directory import SsdDirectory


def repair_index(
    directory: SsdDirectory, capacity: int, addressing: Addressing, *, was_clean: bool, suspicion: str | None
) -> str | None:
    """Checks the index of a directory that no other process has open, and rebuilds it if need be.

    Returns why it was rebuilt, and what became of it; None: it is sound. Raises OSError or IndexDamaged if it could not
    be rebuilt.
    """
    if suspicion is None:
        try:
            needed = check_index(directory.index, AFTER_CLEAN_END if was_clean else AFTER_UNCLEAN_END)
            data = directory.index / DATA_FILE
            if data.stat().st_size < needed:
                os.truncate(data, needed)
        except FileNotFoundError:
            if not any(directory.segments.iterdir()):
                return None  # a directory that was never filled
            suspicion = "there is no index"
        except (IndexDamaged, OSError) as damage:
            suspicion = f"the index is damaged: {damage}"
        else:
            return None
    heads, blocks, is_incomplete = rebuild_index(directory, capacity, addressing)
    rest = ", the rest is searched for in the segments" if is_incomplete else ""
    return f"{suspicion}; rebuilt with {heads} heads and {blocks} blocks{rest}"
