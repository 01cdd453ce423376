"""Compares with LMDB, with its own verifier, and shows what is done about pages that LMDB would not survive."""

import shutil
from pathlib import Path
from random import Random

import pytest

from forebay.core.errors import IndexDamaged
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_check import AFTER_UNCLEAN_END, check_index
from forebay.storage.ssd.index.lmdb_file import LmdbFile
from forebay.storage.ssd.index.lmdb_layout import PageDamaged, PageRef
from harness.index_pages import PAGE, IndexPages, fill_index
from harness.ssd_rig import MIB


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index")
    fill_index(path)
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "copy")


def all_rows(file: LmdbFile) -> dict[str, list[tuple[bytes, bytes]]]:
    return {
        name: [row for leaf in file.leaves(tree) for row in file.rows(tree, leaf)]
        for name, tree in file.tables().items()
    }


def test_all_rows_are_those_that_lmdb_reads(path: Path) -> None:
    file = LmdbFile.open(path)
    found = all_rows(file)
    file.check_free_pages()
    file.close()
    index = Index.open(path, 64 * MIB, exclusive=True)
    with index.env.begin() as txn:
        assert found == {name: list(txn.cursor(table)) for name, table in index.tables._asdict().items()}
    assert len(found["blocks"]) == 1000
    assert any(len(value) > PAGE for _, value in found["heads"]), "some values are on overflow pages"
    index.close()


def test_a_reader_keeps_its_commit_readable_while_others_write(path: Path) -> None:
    index = Index.open(path, 64 * MIB, exclusive=True)
    with index.env.begin() as reader:
        with index.write_transaction() as txn:
            txn.put(bytes(28), bytes(12), db=index.tables.blocks)
        file = LmdbFile.open(path, reader.id())
        assert len(all_rows(file)["blocks"]) == 1000
        file.close()
    index.close()


def test_a_page_that_is_used_twice_is_left_out_once(path: Path) -> None:
    file = LmdbFile.open(path)
    tree = file.tables()["blocks"]
    leaves = file.leaves(tree)
    lost: list[PageRef] = []
    assert file.leaves(tree, lambda ref, _: lost.append(ref)) == []
    assert [ref.number for ref in lost] == [tree.root]
    assert leaves
    file.close()


def test_a_sample_has_so_many_leaves_in_order(path: Path) -> None:
    file = LmdbFile.open(path)
    leaves = file.leaves(file.tables()["blocks"], at_most=5)
    assert len(leaves) == 5
    assert leaves == sorted(leaves, key=lambda ref: ref.lower or b"")
    file.close()


def test_a_free_page_that_is_in_use_is_damage(path: Path) -> None:
    pages = IndexPages(path)
    file = LmdbFile.open(path)
    used = file.leaves(file.tables()["blocks"])[0].number
    free_leaf = file.leaves(file._meta.free)[-1]  # noqa: SLF001 -- there is no other way to it
    rows = file.rows(file._meta.free, free_leaf)  # noqa: SLF001 -- likewise
    file.close()
    listed = rows[-1][1]
    at = pages.content.find(listed, free_leaf.number * PAGE)
    pages.content[at + 8 : at + 16] = used.to_bytes(8, "little")
    pages.save()
    with pytest.raises(IndexDamaged):
        check_index(path, AFTER_UNCLEAN_END)


def test_one_sound_meta_page_is_enough_for_a_salvage(path: Path) -> None:
    pages = IndexPages(path)
    pages.patch(1, 16, b"garbage")
    pages.save()
    with pytest.raises(PageDamaged):
        LmdbFile.open(path)
    file = LmdbFile.open(path, is_salvage=True)
    assert file.damage is not None
    assert len(all_rows(file)["blocks"]) == 1000
    file.close()


def damaged_by(random: Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    at = random.randrange(len(content) // PAGE) * PAGE
    match random.randrange(4):
        case 0:
            for _ in range(random.randrange(1, 50)):
                damaged[at + random.randrange(PAGE)] = random.randrange(256)
        case 1:
            damaged[at + random.randrange(64)] ^= 1 << random.randrange(8)
        case 2:
            damaged[random.choice([0, PAGE]) + random.randrange(152)] ^= 1 << random.randrange(8)
        case _:
            del damaged[random.randrange(len(damaged)) :]
    return bytes(damaged)


@pytest.mark.parametrize("seed", range(4))
def test_what_lmdbs_own_verifier_finds_is_found(path: Path, seed: int) -> None:
    verifier = pytest.importorskip("lmdb.verify")  # lmdb 3.0 and later
    content = (path / "data.mdb").read_bytes()
    random = Random(seed)
    found = 0
    for _ in range(50):
        (path / "data.mdb").write_bytes(damaged_by(random, content))
        try:
            problems = verifier.verify(str(path))
        except verifier.VerifyError as error:
            problems = [str(error)]
        if [problem for problem in problems if "leak" not in problem]:  # a lost page does no harm
            found += 1
            with pytest.raises(IndexDamaged):
                check_index(path, AFTER_UNCLEAN_END)
    assert found > 10


def test_a_whole_index_is_sound_at_each_step_of_its_life(tmp_path: Path) -> None:
    index = Index.open(tmp_path, 64 * MIB, exclusive=True)
    random = Random(2)
    known: list[bytes] = []
    for turn in range(60):
        with index.write_transaction() as txn:
            for _ in range(random.randrange(200)):
                if known and random.random() < (0.3 if turn < 30 else 0.8):
                    txn.delete(known.pop(random.randrange(len(known))), db=index.tables.blocks)
                else:
                    known.append(random.randbytes(28))
                    txn.put(known[-1], bytes(12), db=index.tables.blocks)
            txn.put(b"head", bytes(random.randrange(9000)), db=index.tables.heads)
        check_index(tmp_path, AFTER_UNCLEAN_END)
    index.close()
    check_index(tmp_path, AFTER_UNCLEAN_END)
