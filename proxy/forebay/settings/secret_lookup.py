"""Fetches secrets: each may be given itself, by the name of an environment variable, or in a file; in one way only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from forebay.core.errors import SettingsError
from forebay.settings.secret import Secret
from forebay.settings.tree_reader import Values


@dataclass(frozen=True, slots=True)
class SecretPlaces:
    """Where secrets are fetched from."""

    environ: Mapping[str, str]
    read_file: Callable[[str], str]
    """The content of a file; raises OSError or UnicodeDecodeError."""


def fetch_secret(
    values: Values, name: str, where: str, places: SecretPlaces, problems: list[SettingsError]
) -> Secret | None:
    """The secret `name` of a table at `where`, or None if it is not given."""
    by_variable, by_file = f"{name}_env", f"{name}_file"
    given = [way for way in (name, by_variable, by_file) if values.get(way) is not None]
    if len(given) > 1:
        problems.append(SettingsError(f"{where}.{name}", " and ".join(given), "one way of giving a secret"))
        return None
    if not given:
        return None
    if given == [by_variable]:
        variable = values[by_variable]
        value = places.environ.get(variable, "")
        if not value:
            problems.append(SettingsError(f"{where}.{by_variable}", variable, "a variable that is set, and not empty"))
            return None
        return Secret(value)
    if given == [by_file]:
        return _from_file(values[by_file], f"{where}.{by_file}", places, problems)
    inline: Secret = values[name]
    return inline


def _from_file(path: str, where: str, places: SecretPlaces, problems: list[SettingsError]) -> Secret | None:
    try:
        value = places.read_file(path).removesuffix("\n").removesuffix("\r")
    except OSError as error:
        problems.append(SettingsError(where, path, f"a file that can be read ({error.strerror or 'it failed'})"))
        return None
    except UnicodeDecodeError:
        problems.append(SettingsError(where, path, "a file of UTF-8 text"))
        return None
    if not value or "\n" in value:
        problems.append(SettingsError(where, path, "a file with one line that is not empty"))
        return None
    return Secret(value)
