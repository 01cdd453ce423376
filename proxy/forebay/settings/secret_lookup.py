"""Fetches secrets. Each is given in one of three ways: inline, in an environment variable, or in a file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import SettingsError
from forebay.settings.secret import Secret
from forebay.settings.tree_reader import Values


@dataclass(frozen=True, slots=True)
class SecretSources:
    """The environment and the files that hold secrets."""

    environ: Mapping[str, str]
    read_file: Callable[[str], str]
    """The content of a file; raises OSError or UnicodeDecodeError."""
    are_optional: bool = False
    """Whether a secret may be missing there: NOT_READ is in its place then. Never to serve with."""


NOT_READ: Final = Secret("not read")


def fetch_secret(
    values: Values, name: str, where: str, sources: SecretSources, problems: list[SettingsError]
) -> Secret | None:
    """The secret `name` of the table at `where`; None if it is not given, or if a problem was added."""
    by_variable, by_file = f"{name}_env", f"{name}_file"
    ways = [way for way in (name, by_variable, by_file) if values.get(way) is not None]
    if len(ways) > 1:
        problems.append(SettingsError(f"{where}.{name}", " and ".join(ways), "one way of giving a secret"))
        return None
    if not ways:
        return None
    if ways == [by_variable]:
        variable = values[by_variable]
        value = sources.environ.get(variable, "")
        if not value and sources.are_optional:
            return NOT_READ
        if not value:
            allowed = "a variable that is set, and not empty, where Forebay starts"
            problems.append(SettingsError(f"{where}.{by_variable}", variable, allowed))
            return None
        return Secret(value)
    if ways == [by_file]:
        return _from_file(values[by_file], f"{where}.{by_file}", sources, problems)
    inline: Secret = values[name]
    return inline


def _from_file(path: str, where: str, sources: SecretSources, problems: list[SettingsError]) -> Secret | None:
    try:
        value = sources.read_file(path).removesuffix("\n").removesuffix("\r")
    except OSError as error:
        if sources.are_optional:
            return NOT_READ
        problems.append(SettingsError(where, path, f"a file that can be read ({error.strerror or 'it failed'})"))
        return None
    except UnicodeDecodeError:
        problems.append(SettingsError(where, path, "a file of UTF-8 text"))
        return None
    if not value or "\n" in value:
        problems.append(SettingsError(where, path, "a file with one line that is not empty"))
        return None
    return Secret(value)
