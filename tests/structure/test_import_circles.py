"""Circles: no modules import each other in one, not for their types either, which import-linter's floors leave out."""

from graphlib import TopologicalSorter

import grimp

from structure.source_tree import PACKAGES


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imported) > len(PACKAGES)
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the modules
