"""Every module that changes files is tried with kills and failing calls, or there is a reason why not."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.changed_files import ELSEWHERE, KILLED, NOTHING_KEPT

PROXY: Final = Path(__file__).parents[2] / "proxy" / "forebay"
_OF_OS: Final = frozenset(
    {
        *("fdatasync", "fsync", "ftruncate", "link", "mkdir", "posix_fallocate", "pwrite", "pwritev", "remove"),
        *("rename", "replace", "rmdir", "symlink", "truncate", "unlink", "write", "writev"),
    }
)
_OF_PATHS: Final = frozenset({"mkdir", "rename", "rmtree", "unlink", "write_bytes", "write_text"})
_FUNCTIONS: Final = frozenset(
    {
        *("NamedTemporaryFile", "TemporaryFile", "make_directory", "mkdtemp", "remove_body", "remove_unneeded"),
        *("replace_file", "sync_directory", "write_sums"),
    }
)
_WRITING: Final = frozenset("wax+")


def _changes_files(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in _FUNCTIONS
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in _OF_OS
        case ast.Attribute(attr="open"):
            return any(
                isinstance(mode, ast.Constant) and isinstance(mode.value, str) and _is_writing(mode.value)
                for mode in call.args
            )
        case ast.Attribute(attr="begin"):
            return any(keyword.arg == "write" for keyword in call.keywords)
        case ast.Attribute(attr=name):
            return name in _OF_PATHS | _FUNCTIONS
    return False


def _is_writing(mode: str) -> bool:
    return len(mode) <= len("w+b") and not _WRITING.isdisjoint(mode)


def _modules() -> Iterator[str]:
    for file in sorted(PROXY.rglob("*.py")):
        tree = ast.parse(file.read_text())
        if any(isinstance(node, ast.Call) and _changes_files(node) for node in ast.walk(tree)):
            yield str(file.relative_to(PROXY).with_suffix(""))


def test_every_module_that_changes_files_is_tried() -> None:
    listed = [*KILLED, *ELSEWHERE, *NOTHING_KEPT]
    assert len(listed) == len({*listed}), "one of the three"
    assert {*_modules()} == {*listed}
