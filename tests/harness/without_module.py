"""Runs a module with another one hidden from the import system.

python -m harness.without_module uvloop forebay_client.cli.main serve
"""

import runpy
import sys

if __name__ == "__main__":
    _, missing, module, *arguments = sys.argv
    sys.modules[missing] = None  # type: ignore[assignment] # what the import system takes for "not there"
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
