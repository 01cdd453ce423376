"""The lines of settings: those of their statements, whatever stands before them."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.settings.toml_lines import line_of

TEXT = '''\
# a = 1
[server]   # [[rules]]
listen = "127.0.0.1:9000"
domains = [
    "a]", # b = [
    'c"',
]
note = """
admin = "x"
\\""" quoted
"""
[[auth.keys]]
id = "a"
grants = [{ path = "**", allow = ["read"] },
          { path = "b", allow = ["write"] }]

[[auth.keys]]
"secret_env" = "A"
[[auth.keys.grants]]
path = "**"
[[rules]]
path = "a/**"
  [[rules]]
freshness = "60"
limits.connections = 4
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("server.listen", 3),
        ("server.domains", 4),
        ("server.note", 8),
        ("server.admin", 2),
        ("auth.keys[0].id", 13),
        ("auth.keys[0].grants[1].allow", 14),
        ("auth.keys[0].secret", 12),
        ("auth.keys[1].secret_env", 18),
        ("auth.keys[1].grants[0].path", 20),
        ("auth.keys", 12),
        ("auth.mode", 12),
        ("rules[0].path", 22),
        ("rules[1].path", 23),
        ("rules[1].freshness", 24),
        ("rules[1].limits.connections", 25),
        ("memory.size", None),
        ("", None),
    ],
)
def test_the_line_of_a_setting_or_of_what_is_around_it(path: str, line: int | None) -> None:
    assert tomllib.loads(TEXT)["rules"][1]["limits"] == {"connections": 4}
    assert line_of(TEXT, path) == line


def test_windows_line_ends_are_line_ends() -> None:
    assert line_of(TEXT.replace("\n", "\r\n"), "rules[1].freshness") == 24


@given(st.text(alphabet="ab.=[]{}\"'#\\\n ", max_size=60))
def test_any_text_is_read(text: str) -> None:
    assert line_of(text, "a[0].b") in {None, *range(1, 62)}
