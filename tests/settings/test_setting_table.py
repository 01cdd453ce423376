"""The table against the model, and against itself."""

from dataclasses import fields

import pytest

from forebay.settings.assembly import default_dialect
from forebay.settings.model import (
    AuthSettings,
    FetchSettings,
    GrantSettings,
    JournalSettings,
    KeySettings,
    LimitSettings,
    MemorySettings,
    OriginSettings,
    ServerSettings,
    SsdSettings,
)
from forebay.settings.rule_settings import Rule
from forebay.settings.setting import Absent, Setting
from forebay.settings.setting_table import TABLE
from forebay.settings.tree_reader import SCHEMA
from forebay.settings.value_types import SECRET

MODELS = {
    "server": ServerSettings,
    "origin": OriginSettings,
    "origins[]": OriginSettings,
    "memory": MemorySettings,
    "ssd": SsdSettings,
    "journal": JournalSettings,
    "auth": AuthSettings,
    "auth.keys[]": KeySettings,
    "auth.keys[].grants[]": GrantSettings,
    "auth.anonymous.grants[]": GrantSettings,
    "rules[]": Rule,
    "limits": LimitSettings,
}
# The origin's credentials are one field of the model, and tables within tables are fields too.
CREDENTIALS = {"access_key", "secret_key", "session_token", "profile", "anonymous"}
TABLES = {"auth": {"keys", "anonymous"}, "auth.keys[]": {"grants"}}


@pytest.mark.parametrize("table", MODELS)
def test_model_fields_and_settings_correspond(table: str) -> None:
    settings = {setting.path.removeprefix(f"{table}.") for setting in TABLE if setting.path.rpartition(".")[0] == table}
    secrets = {name for name in settings if f"{name}_env" in settings}
    settings -= {name + way for name in secrets for way in ("_env", "_file")}
    if table in {"origin", "origins[]"}:
        settings = settings - CREDENTIALS | {"credentials"}
    if table == "origin":
        settings = settings - {field.name for field in fields(FetchSettings)} | {"name", "buckets"}
    if table == "auth.keys[]":
        settings = {name for name in settings if not name.startswith("origin_")} | {"origin", "origin_names"}
    names = {field.name for field in fields(MODELS[table])}
    assert settings == names - TABLES.get(table, set())


def test_the_tables_are_those_of_the_model() -> None:
    assert {setting.path.rpartition(".")[0] for setting in TABLE} == set(MODELS)
    assert set(SCHEMA) == {"server", "origin", "origins", "memory", "ssd", "journal", "auth", "rules", "limits"}


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.path)
def test_a_setting_is_whole(setting: Setting) -> None:
    assert setting.meaning.endswith(".")
    assert setting.meaning.count(". ") == 0, "one sentence"
    assert setting.value_type.allowed in setting.allowed
    if setting.low is not None and setting.high is not None:
        assert setting.low < setting.high
    if not isinstance(setting.default, Absent):
        value = setting.value_type.read([] if setting.default == () else setting.default)
        assert setting.low is None or setting.low <= value
        assert setting.high is None or value <= setting.high


def test_each_path_once() -> None:
    assert len({setting.path for setting in TABLE}) == len(TABLE)


def test_a_secret_can_be_given_in_three_ways() -> None:
    paths = {setting.path for setting in TABLE}
    for setting in TABLE:
        if setting.value_type is SECRET:
            assert {f"{setting.path}_env", f"{setting.path}_file"} <= paths


def test_what_may_change_without_a_restart() -> None:
    live = {setting.path for setting in TABLE if setting.live}
    assert {path for path in live if not path.startswith(("rules[]", "auth."))} == {
        "server.cors",
        "server.cnames",
        "server.domains",
        "server.log_level",
        *(f"{table}.{name}" for table in ("origin", "origins[]") for name in ("profile", "access_key", "anonymous")),
        *(
            f"{table}.{name}{form}"
            for table in ("origin", "origins[]")
            for name in ("secret_key", "session_token")
            for form in ("", "_env", "_file")
        ),
        "memory.size",
        "memory.buffers",
        "memory.ahead",
        "memory.rings",
        "ssd.size",
        "ssd.pin_quota",
    }
    assert {setting.path for setting in TABLE if setting.path.startswith(("rules[]", "auth."))} <= live


def test_the_dialect_of_a_host_that_only_looks_like_amazon() -> None:
    assert default_dialect("https://amazonaws.com.example.org") == "minio"
    assert default_dialect("https://notamazonaws.com") == "minio"
