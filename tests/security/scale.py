"""How much the generated tests do: little in `make test`, more by `make forgery`, `make fuzz` and `make long`.

FOREBAY_SECURITY_SCALE      multiplies the cases of every generated test; 1 unless it is set
FOREBAY_IDLE_CONNECTIONS    connections that are held open at once; 2000 unless it is set
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings

SCALE: Final = max(1, int(os.environ.get("FOREBAY_SECURITY_SCALE", "1")))
IDLE_CONNECTIONS: Final = int(os.environ.get("FOREBAY_IDLE_CONNECTIONS", "2000"))


def fuzzed(examples: int) -> settings:
    """Settings of a fuzz test that makes `examples` cases in `make test`. No deadline: a slow machine is no bug."""
    return settings(
        max_examples=examples * SCALE,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
