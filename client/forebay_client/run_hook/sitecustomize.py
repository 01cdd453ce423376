"""Runs at the start of each Python below `forebay run`, which puts this folder first in PYTHONPATH.

It observes PyTorch's DataLoader as soon as that is imported (forebay_client.torch.loader_hook), imports nothing before,
and runs the sitecustomize that it hides. FOREBAY_HOOK=off: it does the latter only.

https://docs.python.org/3/library/site.html#module-sitecustomize
"""

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

_LOADERS = "torch.utils.data.dataloader"
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 # pathlib would slow every start down


class DataLoaderFinder:
    """Finds one module as the others find it, and has it observed once it has run. Then it is gone."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's spec; None for every other module."""
        if name != _LOADERS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _observe(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign] # of this loader alone
        return spec


def _observe(module: ModuleType) -> None:
    try:
        from forebay_client.torch.loader_hook import observe_loaders  # noqa: PLC0415 # only where torch is

        observe_loaders(module)
    except Exception as error:  # whatever it is, the program runs as without
        if isinstance(error, ModuleNotFoundError) and error.name == "forebay_client":
            reason = f"forebay_client is not installed for {sys.executable}"
        else:
            reason = f"{type(error).__name__}: {error}"
        print(f"forebay run: no plans are sent: {reason}", file=sys.stderr)  # noqa: T201 # there is no log yet


def _run_hidden() -> None:
    """The sitecustomize that would have run without this one."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _HERE]  # noqa: PTH100 # as above
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("FOREBAY_HOOK", "").lower() != "off":
    sys.meta_path.insert(0, DataLoaderFinder())
_run_hidden()
