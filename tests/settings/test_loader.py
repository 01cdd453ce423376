"""Whole configurations: where settings come from, what is refused and how it is said, what is warned about."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from forebay.core.errors import SettingsError, SettingsErrors
from forebay.settings import (
    AnonymousAccess,
    AnonymousClients,
    GrantSettings,
    ListenAddress,
    Loaded,
    Profile,
    ProviderChain,
    Rule,
    Secret,
    Settings,
    StaticKey,
    load_settings,
)
from forebay.settings.freshness_values import AlwaysRevalidate, Immutable

ORIGIN: Final = '[origin]\nendpoint = "https://s3.eu-west-1.amazonaws.com"\n'
KEY: Final = '[[auth.keys]]\nid = "trainer"\nsecret = "tell-nobody"\n'
GRANT: Final = 'grants = [{ path = "**", allow = ["read"] }]\n'
JOURNAL: Final = '[journal]\npath = "/journal"\nsize = "1GiB"\n'
MINIMAL: Final = ORIGIN + KEY + GRANT
CONFIG: Final = Path(__file__).parents[2] / "config"


def no_files(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def load(
    text: str | None = MINIMAL,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    files: Mapping[str, str] | None = None,
    mode: int = 0o600,
) -> Loaded:
    read_file = files.__getitem__ if files is not None else no_files
    return load_settings(text, environ or {}, flags or {}, read_file, mode=mode)


def settings(text: str | None = MINIMAL, environ: Mapping[str, str] | None = None, **more: object) -> Settings:
    return load(text, environ, more).settings


def refused(
    text: str | None, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> dict[str, SettingsError]:
    """The problems of a configuration, by where they are."""
    with pytest.raises(SettingsErrors) as error:
        load(text, environ, flags)
    return {problem.where: problem for problem in error.value.problems}


# Sources


def test_the_least_has_all_defaults() -> None:
    made = settings()
    assert made.server.listen == ListenAddress("127.0.0.1", 9000)
    assert made.server.admin == ListenAddress("127.0.0.1", 9001)
    assert made.all_origins[0].credentials == ProviderChain()
    assert (made.all_origins[0].connect_timeout, made.fetch.max_run) == (5.0, 8 << 20)
    assert (made.memory.size, made.ssd, made.rules) == (1 << 30, None, ())
    assert made.auth.keys[0].secret == Secret("tell-nobody")
    assert made.limits.request_body == 5 << 30


def test_flags_go_over_the_environment_over_the_file() -> None:
    text = '[server]\nlisten = "127.0.0.1:1"\nadmin = "127.0.0.1:11"\ndrain_timeout = "1s"\n' + MINIMAL
    environ = {"FOREBAY_SERVER__LISTEN": "127.0.0.1:2", "FOREBAY_SERVER__ADMIN": "127.0.0.1:12"}
    made = load(text, environ, {"server.listen": "127.0.0.1:3", "server.admin": None}).settings
    assert made.server.listen.port == 3
    assert made.server.admin == ListenAddress("127.0.0.1", 12)
    assert made.server.drain_timeout == 1


def test_the_environment_alone_will_do() -> None:
    environ = {
        "FOREBAY_ORIGIN__ENDPOINT": "http://127.0.0.1:8080",
        "FOREBAY_ORIGIN__ANONYMOUS": "true",
        "FOREBAY_ORIGIN__ATTEMPTS": "5",
        "FOREBAY_MEMORY__SIZE": "2GiB",
        "FOREBAY_MEMORY__BUFFERS": "1073741824",
        "FOREBAY_SERVER__DOMAINS": "a.internal, b.internal",
        "FOREBAY_SSD__PATH": "/ssd",
        "FOREBAY_SSD__SIZE": "10GiB",
        "FOREBAY_RULES": '[{"path": "b/**", "freshness": "always", "block": 65536}]',
        "FOREBAY_AUTH__KEYS": '[{"id": "t", "secret_env": "T", "grants": [{"path": "**", "allow": ["read"]}]}]',
        "T": "from-the-environment",
    }
    made = settings(None, environ)
    assert made.all_origins[0].credentials == AnonymousAccess()
    assert (made.all_origins[0].attempts, made.memory.size, made.memory.buffers) == (5, 2 << 30, 1 << 30)
    assert made.server.domains == ("a.internal", "b.internal")
    assert made.ssd is not None
    assert made.ssd.size == 10 << 30
    assert made.rules == (Rule("b/**", freshness=AlwaysRevalidate(), block=65536),)
    assert made.auth.keys[0].secret == Secret("from-the-environment")
    assert made.auth.keys[0].grants[0].allow == {"read"}


def test_a_list_in_the_environment_may_be_json() -> None:
    assert settings(environ={"FOREBAY_SERVER__DOMAINS": '["a.internal"]'}).server.domains == ("a.internal",)
    assert settings(environ={"FOREBAY_SERVER__DOMAINS": ""}).server.domains == ()


def test_hosts_that_stand_for_buckets() -> None:
    wanted = {"data.example.com": "datasets", "x.internal": "b_1"}
    inline = 'server.cnames = { "Data.Example.com." = "datasets", "x.internal" = "b_1" }\n'
    assert settings(inline + MINIMAL).server.cnames == wanted
    in_a_table = '[server.cnames]\n"Data.Example.com." = "datasets"\n"x.internal" = "b_1"\n'
    assert settings(MINIMAL + in_a_table).server.cnames == wanted
    assert settings(MINIMAL).server.cnames == {}
    for text in (
        "data.example.com=datasets, x.internal=b_1",
        '{"data.example.com.": "datasets", "X.internal": "b_1"}',
    ):
        assert settings(environ={"FOREBAY_SERVER__CNAMES": text}).server.cnames == wanted
    assert settings(environ={"FOREBAY_SERVER__CNAMES": ""}).server.cnames == {}


def test_the_environment_of_kubernetes_is_left_alone() -> None:
    environ = {"FOREBAY_PORT": "tcp://10.0.0.1:9000", "FOREBAY_SERVICE_HOST": "10.0.0.1", "HOME": "/"}
    assert load(environ=environ).warnings == ()


def test_a_setting_with_one_underscore_is_warned_about() -> None:
    (warning,) = load(environ={"FOREBAY_SERVER_LISTEN": "x"}).warnings
    assert "FOREBAY_SERVER_LISTEN" in warning
    assert "FOREBAY_SERVER__LISTEN" in warning


def test_an_unknown_variable_is_refused_unless_a_setting_names_it() -> None:
    problem = refused(MINIMAL, {"FOREBAY_SERVER__LISTN": "tell-nobody"})["FOREBAY_SERVER__LISTN"]
    assert str(problem).startswith(
        "FOREBAY_SERVER__LISTN: no such setting, allowed: FOREBAY_SERVER__LISTEN (did you mean "
    )
    assert "tell-nobody" not in str(problem)
    text = ORIGIN + '[[auth.keys]]\nid = "t"\nsecret_env = "FOREBAY_KEYS__T"\n'
    assert settings(text, {"FOREBAY_KEYS__T": "s"}).auth.keys[0].secret == Secret("s")


def test_a_refusal_names_the_variable_of_its_value() -> None:
    rules = '[{"path": "**", "freshness": "60"}]'
    problems = refused(MINIMAL, {"FOREBAY_MEMORY__SIZE": "4G", "FOREBAY_RULES": rules})
    assert str(problems["memory.size"]).startswith("memory.size (from FOREBAY_MEMORY__SIZE): got '4G', allowed: a size")
    assert problems["rules[0].freshness"].source == "from FOREBAY_RULES"
    secret = {"FOREBAY_AUTH__KEYS": '[{"id": "t", "secrte": "tell-nobody"}]'}
    assert all("tell-nobody" not in str(problem) for problem in refused(ORIGIN, secret).values())


def test_a_refusal_names_the_line_of_its_value() -> None:
    text = MINIMAL + '[[rules]]\npath = "**"\nfreshness = "60"\n'
    found = str(refused(text)["rules[0].freshness"])
    assert found.startswith(f"rules[0].freshness (line {text.count(chr(10))}): got '60', allowed: ")
    (problem,) = refused(text.replace('"60"', '"60s"') + "[memory]\nsize = 1\n", {}, {"memory.size": "4G"}).values()
    assert problem.source is None, "the flag is refused, not the file's value"


def test_text_without_quotation_marks_gets_advice() -> None:
    (problem,) = refused("[origin]\nendpoint = https://s3.amazonaws.com\n").values()
    place = "the configuration file, line 2, column 12"
    assert str(problem) == f"{place}: not TOML: Invalid value (text stands in quotation marks)"


def test_a_flag_is_no_variable() -> None:
    (problem,) = refused(MINIMAL, {"FOREBAY_MEMORY__SIZE": "1GiB"}, {"memory.size": "4G"}).values()
    assert problem.source is None


def test_an_unknown_flag_is_refused() -> None:
    assert "did you mean 'server.listen'" in str(refused(MINIMAL, flags={"server.listn": "x"})["server.listn"])


# Refusals: each with where, what was given, what is allowed

REFUSED: Final = [
    ('[server]\nlisten = "127.0.0.1"\n', "server.listen", "127.0.0.1", "host:port"),
    ('[server]\nlisten = "127.0.0.1:99999"\n', "server.listen", "127.0.0.1:99999", "host:port"),
    ("[server]\nlisten = 9000\n", "server.listen", 9000, "host:port"),
    ('[server]\nlistn = "x"\n', "server.listn", "listn", "listen (did you mean 'listen'?), access_log, "),
    ("[server]\nworkers = 257\n", "server.workers", 257, "from 0 to 256"),
    ("[server]\nworkers = true\n", "server.workers", True, "a whole number"),
    ('[server]\ndrain_timeout = "30"\n', "server.drain_timeout", "30", "with its unit"),
    ("[server]\ndrain_timeout = 30\n", "server.drain_timeout", 30, "with its unit"),
    ('[server]\ndrain_timeout = "2h"\n', "server.drain_timeout", "2h", "from 0s to 1h"),
    ('[server]\ndomains = "a.internal"\n', "server.domains", "a.internal", "a list of domain names"),
    ('[server]\ndomains = ["a b"]\n', "server.domains", ["a b"], "a list of domain names"),
    ('[server]\ndomains = ["a.b", "A.b."]\n', "server.domains", ["a.b", "A.b."], "each domain once"),
    ('[server]\ndomains = ["127.0.0.1"]\n', "server.domains", "127.0.0.1", "no subdomains"),
    *(
        (f"[server]\ncnames = {given}\n", "server.cnames", value, "a table of host names to names of buckets")
        for given, value in (
            ('{ "a b" = "c" }', {"a b": "c"}),
            ('{ "a.b" = "c/d" }', {"a.b": "c/d"}),
            ('{ "a.b" = "" }', {"a.b": ""}),
            ('{ "a.b" = 1 }', {"a.b": 1}),
            ('{ "a.b:9000" = "c" }', {"a.b:9000": "c"}),
            ('{ "a.b" = ["c"] }', {"a.b": ["c"]}),
            ('["a.b"]', ["a.b"]),
            ('"a.b=c"', "a.b=c"),
            ('{ "a.b" = "c", "A.b." = "d" }', {"a.b": "c", "A.b.": "d"}),
        )
    ),
    ('[server]\ncnames = { "10.0.0.1" = "b" }\n', "server.cnames", "10.0.0.1", "names the bucket in the path"),
    (
        '[server]\ndomains = ["A.b."]\ncnames = { "a.b" = "c" }\n',
        "server.cnames",
        "a.b",
        "a host that is not in server.domains",
    ),
    ('[server]\nadmin_token = "space at the end "\n', "server.admin_token", "***", "visible ASCII"),
    ('[server]\nadmin_token = "geheimnis-ü"\n', "server.admin_token", "***", "visible ASCII"),
    ('[server]\naccess_log = "log"\n', "server.access_log", "log", '"stdout", "stderr", "off" or the absolute path'),
    ('[server]\nworkers = "many"\n', "server.workers", "many", 'a whole number or "auto"'),
    ("[server]\nworkers = 257\n", "server.workers", 257, "from 0 to 256"),
    ("[server]\naccess_log = false\n", "server.access_log", False, '"stdout", "stderr", "off" or the absolute path'),
    ('[server]\nlog_level = "trace"\n', "server.log_level", "trace", '"debug" or "info"'),
    ('[server]\ntls_listen = "9443"\n', "server.tls_listen", "9443", "host:port"),
    ('[server]\nadmin = "0.0.0.0:9001"\n', "server.admin", "0.0.0.0:9001", "admin_token"),
    ('[server]\nadmin = "127.0.0.1:9000"\n', "server.admin", "127.0.0.1:9000", "another address"),
    ('[server]\nlisten = "0.0.0.0:9001"\n', "server.admin", "127.0.0.1:9001", "server.listen (0.0.0.0:9001)"),
    ('[server]\nadmin = "localhost:9000"\n', "server.admin", "localhost:9000", "another address"),
    ('[memory]\nsize = "4G"\n', "memory.size", "4G", "GiB"),
    ('[memory]\nsize = "-1"\n', "memory.size", "-1", "a size"),
    ('[memory]\nbuffers = "4MiB"\n', "memory.buffers", "4MiB", "origin.max_run (8MiB)"),
    ('[ssd]\nsize = "1GiB"\n', "ssd.path", None, "an absolute path"),
    ('[ssd]\npath = "/ssd"\n', "ssd.size", None, "a size"),
    ('[ssd]\npath = "ssd"\nsize = "1GiB"\n', "ssd.path", "ssd", "an absolute path"),
    ('[ssd]\npath = "/ssd"\nsize = "512KiB"\n', "ssd.size", "512KiB", "at least 1MiB"),
    (
        '[ssd]\npath = "/ssd"\nsize = "1GiB"\nsegment = "1MiB"\n',
        "ssd.segment",
        "segment",
        "path, pin_quota, size",
    ),
    ("[ssd]\n", "ssd.path", None, "an absolute path"),
    ("ssd = 3\n", "ssd", "a int", "a table"),
    ('[[rules]]\nfreshness = "60s"\n', "rules[0].path", None, "a pattern over"),
    ('[[rules]]\npath = "b/**"\n[[rules]]\npath = "b"\n', "rules[1].path", "b", "b/**"),
    ('[[rules]]\npath = "b/**"\nfreshness = "60"\n', "rules[0].freshness", "60", '"immutable"'),
    ('[[rules]]\npath = "b/**"\nblock = "3MiB"\n', "rules[0].block", "3MiB", "a power of two"),
    ('[[rules]]\npath = "b/**"\nblock = "32KiB"\n', "rules[0].block", "32KiB", "from 64KiB to 64MiB"),
    ('[[rules]]\npath = "b/**"\nblock = "128MiB"\n', "rules[0].block", "128MiB", "from 64KiB to 64MiB"),
    ('[[rules]]\npath = "b/**"\nblock = "16MiB"\n', "rules[0].block", "16MiB", "at most origin.max_run"),
    ('[[rules]]\npath = "b/**"\nwrite = "back"\n', "rules[0].write", "back", '"through" or "around"'),
    ('[[rules]]\npath = "b/**"\naccelerate = "true"\n', "rules[0].accelerate", "true", "true or false"),
    ('[[rules]]\npath = "b/**"\nwrite = "around"\nwarm_on_write = true\n', "rules[0].warm_on_write", True, "around"),
    ('[[rules]]\npath = "b/**"\nquota = "1KiB"\n', "rules[0].quota", "1KiB", "1MiB"),
    ('[[rules]]\npath = "b/**"\neviction = "fifo"\n', "rules[0].eviction", "fifo", "epoch"),
    ("[rules]\n", "rules", "a table", "a list of tables, each under [[rules]]"),
    ("rules = [3]\n", "rules[0]", "a int", "a table"),
    ('[auth]\nmode = "open"\n', "auth.keys", ["trainer"], "no keys"),
    ('[auth]\nmode = "opne"\n', "auth.mode", "opne", '"keys" or "open"'),
    ("[auth]\nmode = 1\n", "auth.mode", 1, '"keys" or "open"'),
    ('[limits]\nheader_size = "1KiB"\n', "limits.header_size", "1KiB", "from 4KiB to 1MiB"),
    ("[limits]\nrequests = 0\n", "limits.requests", 0, "from 1 to 1000000"),
    ("[cache]\n", "cache", "cache", "auth, journal, limits, memory, origin, origins, rules, server, ssd"),
]


@pytest.mark.parametrize(("text", "where", "given", "allowed"), REFUSED)
def test_refused(text: str, where: str, given: object, allowed: str) -> None:
    problems = refused(text + MINIMAL)
    assert set(problems) - {"ssd.size"} <= {where}
    assert "None" not in str(problems[where])
    assert problems[where].value == given
    assert allowed in problems[where].allowed


ORIGIN_REFUSED: Final = [
    ('endpoint = "s3.amazonaws.com"', "origin.endpoint", "http:// or https://"),
    ('endpoint = "ftp://host"', "origin.endpoint", "http:// or https://"),
    ('endpoint = "https://host/path"', "origin.endpoint", "no user, path or query"),
    ('endpoint = "https://host?"', "origin.endpoint", "no user, path or query"),
    ('endpoint = "https://user:tell-nobody@host"', "origin.endpoint", "no user, path or query"),
    ('endpoint = "https://host:x"', "origin.endpoint", "http:// or https://"),
    ('endpoint = "https://host:"', "origin.endpoint", "http:// or https://"),
    ('endpoint = "https://[::1]:/"', "origin.endpoint", "http:// or https://"),
    ('endpoint = "https://ho st"', "origin.endpoint", "http:// or https://"),
    ('endpoint = "https://host\\n"', "origin.endpoint", "http:// or https://"),
    ("", "origin.endpoint", "http:// or https://"),
    ('endpoint = "https://h"\ndialect = "gcs"', "origin.dialect", '"minio" or "ceph" or "swift" or "oss"'),
    ('endpoint = "https://h"\ndialect = "oss"', "origin.region", "such as cn-hangzhou"),
    ('endpoint = "https://oss-accelerate.aliyuncs.com"', "origin.region", "such as cn-hangzhou"),
    ('endpoint = "https://1.2.3.4"\ndialect = "oss"\nregion = "x"', "origin.endpoint", "a host name"),
    (
        'endpoint = "https://s3.oss-cn-hangzhou.aliyuncs.com"\nregion = "x"',
        "origin.endpoint",
        "own protocol: oss-cn-hangzhou.aliyuncs.com",
    ),
    ('endpoint = "https://h"\nregion = "eu west"', "origin.region", "letters, digits"),
    ('endpoint = "http://127.0.0.1:9000"', "origin.endpoint", "its own server.listen"),
    ('endpoint = "http://localhost:9000/"', "origin.endpoint", "its own server.listen"),
    ('endpoint = "http://h"\nca_file = "/ca.pem"', "origin.ca_file", "https://"),
    ('endpoint = "https://h"\ngap = "8MiB"', "origin.gap", "less than origin.max_run"),
    ('endpoint = "https://h"\naccess_key = "AK"', "origin.secret_key", "secret_key_env"),
    ('endpoint = "https://h"\nsecret_key = "tell-nobody"', "origin.access_key", "since secret_key is given"),
    ('endpoint = "https://h"\nsession_token_env = "T"', "origin.session_token_env", "a variable that is set"),
    ('endpoint = "https://h"\nsession_token = "tell-nobody"', "origin.access_key", "since session_token is given"),
    ('endpoint = "https://h"\nprofile = "p"\nanonymous = true', "origin.anonymous", "one of"),
    (
        'endpoint = "https://h"\naccess_key = "AK"\nsecret_key = "tell-nobody"\nprofile = "p"',
        "origin.profile",
        "one of access_key, profile and anonymous",
    ),
]


@pytest.mark.parametrize(("text", "where", "allowed"), ORIGIN_REFUSED)
def test_an_origin_refused(text: str, where: str, allowed: str) -> None:
    problems = refused(f"[origin]\n{text}\n{KEY}")
    assert allowed in problems[where].allowed
    assert "tell-nobody" not in "".join(str(problem) for problem in problems.values())


KEYS_REFUSED: Final = [
    ("", "auth.keys", "[[auth.keys]] with id, secret_env and grants in the file, or FOREBAY_AUTH__KEYS"),
    ("", "auth.keys", "or --open"),
    ('[[auth.keys]]\nid = "t"\n', "auth.keys[0].secret", "secret_env, secret_file or secret"),
    ('[[auth.keys]]\nsecret = "tell-nobody"\n', "auth.keys[0].id", "visible ASCII"),
    ('[[auth.keys]]\nid = "a/b"\nsecret = "tell-nobody"\n', "auth.keys[0].id", "visible ASCII"),
    ('[[auth.keys]]\nid = "t"\nsecret = ""\n', "auth.keys[0].secret", "not empty"),
    ('[[auth.keys]]\nid = "t"\nsecret = ["tell-nobody"]\n', "auth.keys[0].secret", "not empty"),
    ('[[auth.keys]]\nid = "t"\nsecrte = "tell-nobody"\n', "auth.keys[0].secrte", "did you mean 'secret'"),
    ('[[auth.keys]]\nid = "t"\nsecret = "tell-nobody"\nsecret_env = "T"\n', "auth.keys[0].secret", "one way"),
    ('[[auth.keys]]\nid = "t"\nsecret_env = "T"\n', "auth.keys[0].secret_env", "a variable that is set"),
    ('[[auth.keys]]\nid = "t"\nsecret_env = "tell nobody"\n', "auth.keys[0].secret_env", "the name of an environment"),
    ('[[auth.keys]]\nid = "t"\nsecret_file = "/t"\n', "auth.keys[0].secret_file", "No such file"),
    (KEY + KEY, "auth.keys[1].id", "no other key"),
    (KEY + 'grants = [{ path = "b", allow = ["read"] }]', "auth.keys[0].grants[0].path", "b/**"),
    (KEY + 'grants = [{ path = "b/**" }]', "auth.keys[0].grants[0].allow", "one or more"),
    (KEY + 'grants = [{ path = "b/**", allow = [] }]', "auth.keys[0].grants[0].allow", "one or more"),
    (KEY + 'grants = [{ path = "b/**", allow = ["raed"] }]', "auth.keys[0].grants[0].allow", '"read"'),
    (KEY + 'grants = [{ path = "b/**", allow = [["read"]] }]', "auth.keys[0].grants[0].allow", '"read"'),
    (KEY + 'grants = [{ path = "b/**", allow = "read" }]', "auth.keys[0].grants[0].allow", "a list"),
    (KEY + 'grants = "b/**"', "auth.keys[0].grants", "a list of tables, each under [[auth.keys.grants]]"),
]


@pytest.mark.parametrize(("text", "where", "allowed"), KEYS_REFUSED)
def test_keys_refused(text: str, where: str, allowed: str) -> None:
    problems = refused(ORIGIN + text)
    assert allowed in problems[where].allowed
    assert "tell-nobody" not in "".join(str(problem) for problem in problems.values())


@pytest.mark.parametrize("listen", ["0.0.0.0:9000", "10.0.0.1:9000", "[::]:9000", "forebay.internal:9000"])
def test_open_is_for_the_loopback_only(listen: str) -> None:
    problem = refused(f'[server]\nlisten = "{listen}"\n[auth]\nmode = "open"\n{ORIGIN}')["server.listen"]
    assert "loopback" in problem.allowed


@pytest.mark.parametrize("where", ["listen", "tls_listen"])
def test_open_is_refused_wherever_others_reach(where: str) -> None:
    server = {"listen": "127.0.0.1:1", "tls_listen": "127.0.0.1:2", where: "0.0.0.0:3"}
    text = "".join(f'{name} = "{value}"\n' for name, value in server.items()) + TLS_FILES
    problems = refused(f'[server]\n{text}[auth]\nmode = "open"\n{ORIGIN}')
    assert list(problems) == [f"server.{where}"]
    assert "no request is checked" in problems[f"server.{where}"].allowed


def test_the_flag_open_goes_before_keys_that_stand_elsewhere() -> None:
    keys = '[[auth.keys]]\nid = "laptop"\nsecret_env = "NOT_SET"\n[[auth.keys]]\nid = "other"\nsecret = "s"\n'
    loaded = load(ORIGIN + keys, flags={"auth.mode": "open"})
    assert (loaded.settings.auth.mode, loaded.settings.auth.keys) == ("open", ())
    (warning,) = loaded.warnings
    assert "--open" in warning
    assert "laptop, other" in warning


ANYBODY: Final = '[auth.anonymous]\ngrants = [{ path = "public/**", allow = ["read"] }]\n'


def test_requests_without_a_key_have_grants_where_they_are_configured() -> None:
    assert settings(MINIMAL).auth.anonymous is None
    assert settings(MINIMAL + ANYBODY).auth.anonymous == AnonymousClients(
        (GrantSettings("public/**", frozenset({"read"})),)
    )
    assert settings(ORIGIN + ANYBODY).auth.keys == ()  # nobody else need be let in
    variable = {"FOREBAY_AUTH__ANONYMOUS__GRANTS": '[{"path": "public/**", "allow": ["read"]}]'}
    assert load(MINIMAL, variable).settings == settings(MINIMAL + ANYBODY)
    (warning,) = load(MINIMAL + "[auth.anonymous]\n").warnings
    assert "auth.anonymous has no grants" in warning


def test_requests_without_a_key_are_nobody_elses() -> None:
    assert list(refused(MINIMAL + ANYBODY + KEY.replace("trainer", "anonymous"))) == ["auth.keys[1].id"]
    assert list(refused(f'{ORIGIN}[auth]\nmode = "open"\n{ANYBODY}')) == ["auth.anonymous"]
    loaded = load(ORIGIN + ANYBODY, flags={"auth.mode": "open"})
    assert (loaded.settings.auth.anonymous, len(loaded.warnings)) == (None, 1)


def test_open_in_the_environment_does_not() -> None:
    assert list(refused(MINIMAL, {"FOREBAY_AUTH__MODE": "open"})) == ["auth.keys"]


TLS_FILES: Final = 'tls_certificate = "/tls/chain.pem"\ntls_key = "/tls/key.pem"\n'


def test_tls_beside_the_plain_listener() -> None:
    server = settings(f'[server]\ntls_listen = "0.0.0.0:9443"\n{TLS_FILES}{MINIMAL}').server
    assert (server.listen.port, server.tls_listen) == (9000, ListenAddress("0.0.0.0", 9443))
    assert (server.tls_certificate, server.tls_key) == ("/tls/chain.pem", "/tls/key.pem")


@pytest.mark.parametrize(
    ("text", "wheres", "allowed"),
    [
        (
            'tls_listen = "[::1]:9443"\n',
            ["server.tls_certificate", "server.tls_key"],
            "since server.tls_listen is given",
        ),
        ('tls_listen = "[::1]:9443"\ntls_key = "/k"\n', ["server.tls_certificate"], "since server.tls_listen is given"),
        ('tls_key = "/k"\n', ["server.tls_listen"], "since server.tls_key is given"),
        (TLS_FILES, ["server.tls_listen"], "since server.tls_certificate and server.tls_key is given"),
        (f'tls_listen = "127.0.0.1:9000"\n{TLS_FILES}', ["server.tls_listen"], "server.listen (127.0.0.1:9000)"),
        (f'tls_listen = "127.0.0.1:9001"\n{TLS_FILES}', ["server.admin"], "server.tls_listen (127.0.0.1:9001)"),
    ],
)
def test_tls_settings_come_together(text: str, wheres: list[str], allowed: str) -> None:
    problems = refused(f"[server]\n{text}{MINIMAL}")
    assert list(problems) == wheres
    assert all(allowed in problem.allowed for problem in problems.values())


def test_an_origin_that_is_the_tls_listener() -> None:
    text = f'[server]\ntls_listen = "127.0.0.1:443"\n{TLS_FILES}[origin]\nendpoint = "https://localhost"\n{KEY}'
    assert "server.tls_listen" in refused(text)["origin.endpoint"].allowed


@pytest.mark.parametrize(("given", "workers"), [('"auto"', 0), ("0", 0), ("3", 3)])
def test_workers_are_counted_or_found_out(given: str, workers: int) -> None:
    assert settings(f"[server]\nworkers = {given}\n{MINIMAL}").server.workers == workers
    assert settings(environ={"FOREBAY_SERVER__WORKERS": given.strip('"')}).server.workers == workers


@pytest.mark.parametrize("where", ["stdout", "stderr", "off", "/var/log/forebay/access.log"])
def test_where_the_access_log_goes(where: str) -> None:
    assert settings(environ={"FOREBAY_SERVER__ACCESS_LOG": where}).server.access_log == where


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (GRANT, []),
        ("", ["auth.keys[0] (trainer) has no grants"]),
        (GRANT + '[[rules]]\npath = "b/**"\n', ["rules[0] (b/**) sets nothing"]),
        (
            GRANT + '[[rules]]\npath = "b/[ab]/**"\nfreshness = "1h"\n',
            ["rules[0] (b/[ab]/**): [ab] stands for itself"],
        ),
        (
            GRANT + '[[rules]]\npath = "b/{x,y}/**"\nfreshness = "1h"\n',
            ["rules[0] (b/{x,y}/**): {x,y} stands for itself"],
        ),
        (
            'grants = [{ path = "b/[0-9]*", allow = ["read"] }]\n',
            ["auth.keys[0].grants[0] (b/[0-9]*): [0-9] stands for itself"],
        ),
        (GRANT + '[[rules]]\npath = "b/[x/y]/{x}/**"\nfreshness = "1h"\n', []),
        (
            GRANT + '[[rules]]\npath = "**"\nfreshness = "60s"\n[[rules]]\npath = "b/**"\nfreshness = "1h"\n',
            ["rules[1] (b/**) decides nothing"],
        ),
        (
            GRANT + '[[rules]]\npath = "b/**"\nfreshness = "60s"\n[[rules]]\npath = "b/**"\nfreshness = "1h"\n',
            ["rules[1] (b/**) decides nothing"],
        ),
        (
            GRANT
            + '[[rules]]\npath = "b/*"\nfreshness = "1s"\n[[rules]]\npath = "**"\nfreshness = "60s"\n'
            + '[[rules]]\npath = "c/**"\nfreshness = "1h"\nblock = "2MiB"\n',
            [],
        ),
        (
            GRANT + '[[rules]]\npath = "b/**"\naccelerate = false\nfreshness = "1h"\nquota = "2GiB"\n'
            '[[rules]]\npath = "c/**"\naccelerate = false\nlisting = "10m"\nfollow = false\nread_ahead = "0B"\n'
            '[ssd]\npath = "/ssd"\nsize = "3GiB"\n',
            ["rules[0] (b/**) has accelerate = false: nothing of it is cached, and its freshness, quota have no"],
        ),
        (
            GRANT + '[[rules]]\npath = "b/a/**"\naccelerate = true\n'
            '[[rules]]\npath = "b/**"\naccelerate = false\nfreshness = "1h"\n',
            [],
        ),
        (
            GRANT + '[[rules]]\npath = "b/**"\nfreshness = "1s"\n[[rules]]\npath = "b/a/*.bin"\nfreshness = "1h"\n',
            ["rules[1] (b/a/*.bin) decides nothing"],
        ),
        (
            GRANT
            + '[[rules]]\npath = "b/**"\nfreshness = "1s"\n[[rules]]\npath = "b/a*"\naccelerate = false\n'
            + '[[rules]]\npath = "b/ab"\nfreshness = "1h"\naccelerate = true\n',
            [],
        ),
        (
            GRANT + '[[rules]]\npath = "b/**"\nfence = ["**/latest"]\n',
            ["rules[0] (b/**) has a fence, which is for write"],
        ),
        (
            GRANT + JOURNAL + '[[rules]]\npath = "b/**"\nwrite = "through"\nconflict = "overwrite"\n'
            '[[rules]]\npath = "c/**"\nwrite = "back"\n',
            ["rules[0] (b/**) has a conflict, which is for write"],
        ),
        (
            GRANT
            + JOURNAL
            + '[[rules]]\npath = "**"\nfence = ["**/latest"]\n[[rules]]\npath = "c/**"\nwrite = "back"\n',
            [],
        ),
        (
            GRANT + '[ssd]\npath = "/ssd"\nsize = "1GiB"\n[[rules]]\npath = "b/**"\nquota = "2GiB"\n',
            ["rules[0] (b/**): its quota (2GiB) bounds nothing: ssd.size is 1GiB"],
        ),
        (
            GRANT + '[[rules]]\npath = "b/**"\nquota = "2GiB"\n',
            ["rules[0] (b/**): its quota (2GiB) bounds nothing: there is no SSD tier"],
        ),
        (
            GRANT + '[server]\nstate_dir = "/ssd/cache/../cache/state"\n[ssd]\npath = "/ssd/cache"\nsize = "1GiB"\n',
            ["server.state_dir (/ssd/cache/../cache/state) lies within ssd.path"],
        ),
        (GRANT + '[server]\nstate_dir = "/ssd/state"\n[ssd]\npath = "/ssd/cache"\nsize = "1GiB"\n', []),
        (GRANT + '[memory]\nsize = "512KiB"\n', ["memory.size (512KiB) is less than one block (1MiB)"]),
        (GRANT + '[memory]\nsize = "0B"\n', []),
        (GRANT + '[ssd]\npath = "/ssd"\nsize = "4MiB"\n', ["ssd.size (4MiB) is less than 5 blocks (1MiB each)"]),
        (GRANT + '[ssd]\npath = "/ssd"\nsize = "5MiB"\n', []),
        (GRANT + "[server]\nworkers = 32\n", []),
        (GRANT + "[server]\nworkers = 33\n", ["memory.buffers (256MiB) gives each of 33 workers less than one run"]),
        (
            GRANT + '[[rules]]\npath = "b/**"\nblock = "8MiB"\n[memory]\nsize = "4MiB"\n',
            ["memory.size (4MiB) is less than one block (8MiB)"],
        ),
    ],
)
def test_what_is_hardly_meant_is_warned_about(text: str, warnings: list[str]) -> None:
    found = load(ORIGIN + KEY + text).warnings
    assert len(found) == len(warnings), found
    assert all(warning in said for warning, said in zip(warnings, found, strict=True))


@pytest.mark.parametrize("listen", ["127.0.0.1:9000", "127.8.8.8:9000", "[::1]:9000", "localhost:9000"])
def test_open_on_the_loopback(listen: str) -> None:
    assert settings(f'[server]\nlisten = "{listen}"\n[auth]\nmode = "open"\n{ORIGIN}').auth.mode == "open"


def test_an_admin_port_for_others_with_a_token_or_none_at_all() -> None:
    served = settings('[server]\nadmin = "0.0.0.0:9001"\nadmin_token = "t"\n' + MINIMAL).server
    assert (served.admin, served.admin_token) == (ListenAddress("0.0.0.0", 9001), Secret("t"))
    assert settings('[server]\nadmin = "off"\n' + MINIMAL).server.admin is None


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as error:
        load('[server]\nlistn = 1\nworkers = 999\n[[rules]]\npath = "**"\nfreshness = "x"\n')
    assert error.value.where == "server.listn"
    lines = str(error.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "server.listn (line 2)",
        "server.workers (line 3)",
        "rules[0].freshness (line 6)",
        "origin.endpoint",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('secret = "tell-nobody', ", line 1, at its end"),
        ("[[auth.keys]\n", ", line 1, column 12"),
        ("a = 1\na = 2", ", line 2, at its end"),
        ("a = 1\n\nsecret tell-nobody\nb = 2\n", ", line 3, column 8"),
        ("a = " + "[" * 100_000, ""),
        ("\0", ", line 1, column 1"),
    ],
)
def test_what_is_no_toml_is_refused_by_its_place_without_being_shown(text: str, place: str) -> None:
    (where, problem), *_ = refused(text).items()
    assert where == f"the configuration file{place}"
    assert problem.value == "text that is no TOML"
    assert problem.allowed.startswith("TOML")
    assert "tell-nobody" not in str(problem)


@pytest.mark.parametrize("text", ["{", "3", '{"path": "**"}', "[" * 100_000])
def test_rules_in_the_environment_are_json(text: str) -> None:
    assert "a list of tables" in refused(MINIMAL, {"FOREBAY_RULES": text})["rules"].allowed


@pytest.mark.parametrize(
    ("variable", "value"),
    [("FOREBAY_ORIGIN__ANONYMOUS", "yes"), ("FOREBAY_LIMITS__REQUESTS", "many"), ("FOREBAY_SERVER__DOMAINS", "[")],
)
def test_text_that_is_not_what_it_should_be(variable: str, value: str) -> None:
    (problem,) = refused(MINIMAL, {variable: value}).values()
    assert problem.value == value


# Secrets, credentials, what is derived


def test_a_secret_from_a_file_loses_its_newline_only() -> None:
    text = ORIGIN + '[[auth.keys]]\nid = "t"\nsecret_file = "/t"\n'
    assert load(text, files={"/t": " s \n"}).settings.auth.keys[0].secret == Secret(" s ")


@pytest.mark.parametrize("content", ["", "\n", "one\ntwo\n"])
def test_a_secret_is_one_line(content: str) -> None:
    with pytest.raises(SettingsErrors, match="one line"):
        load(ORIGIN + '[[auth.keys]]\nid = "t"\nsecret_file = "/t"\n', files={"/t": content})


def test_a_secret_file_that_is_no_text() -> None:
    def binary(path: str) -> str:
        return b"\xff".decode()

    with pytest.raises(SettingsErrors, match="UTF-8"):
        load_settings(ORIGIN + '[[auth.keys]]\nid = "t"\nsecret_file = "/t"\n', {}, {}, binary)


def test_credentials_of_the_origin() -> None:
    def credentials(text: str) -> object:
        return settings(f'[origin]\nendpoint = "https://h"\n{text}\n{KEY}').all_origins[0].credentials

    static = StaticKey("AK", Secret("s"), None)
    assert credentials('access_key = "AK"\nsecret_key = "s"') == static
    static = StaticKey("AK", Secret("s"), Secret("t"))
    assert credentials('access_key = "AK"\nsecret_key = "s"\nsession_token = "t"') == static
    assert credentials('profile = "p"') == Profile("p")
    assert credentials("anonymous = true") == AnonymousAccess()
    assert credentials("anonymous = false") == ProviderChain()


@pytest.mark.parametrize(
    ("endpoint", "dialect", "region"),
    [
        ("https://s3.eu-west-1.amazonaws.com", "aws", "eu-west-1"),
        ("https://s3.amazonaws.com/", "aws", "us-east-1"),
        ("https://s3.dualstack.us-west-2.amazonaws.com", "aws", "us-west-2"),
        ("https://s3.cn-north-1.amazonaws.com.cn", "aws", "cn-north-1"),
        ("https://bucket.vpce-1a2b3c4d-5e6f.s3.us-east-2.vpce.amazonaws.com", "aws", "us-east-2"),
        ("https://s3.us-gov-west-1.amazonaws.com", "aws", "us-gov-west-1"),
        ("https://s3.eu-west-1.amazonaws.com.example.org", "minio", "us-east-1"),
        ("https://oss-cn-hangzhou.aliyuncs.com", "oss", "cn-hangzhou"),
        ("https://oss-cn-hangzhou-internal.aliyuncs.com", "oss", "cn-hangzhou"),
        ("https://oss-ap-southeast-1.aliyuncs.com", "oss", "ap-southeast-1"),
        ("https://oss-cn-shanghai-finance-1-internal.aliyuncs.com", "oss", "cn-shanghai-finance-1"),
        ("https://oss-cn-hangzhou.aliyuncs.com.example.org", "minio", "us-east-1"),
        ("http://127.0.0.1:8080", "minio", "us-east-1"),
        ("http://[::1]:9000", "minio", "us-east-1"),
    ],
)
def test_dialect_and_region_follow_from_the_endpoint(endpoint: str, dialect: str, region: str) -> None:
    origin = settings(f'[origin]\nendpoint = "{endpoint}"\n{KEY}').all_origins[0]
    assert (origin.endpoint, origin.dialect, origin.region) == (endpoint.rstrip("/"), dialect, region)
    said = settings(f'[origin]\nendpoint = "{endpoint}"\ndialect = "ceph"\nregion = "x"\n{KEY}').all_origins[0]
    assert (said.dialect, said.region) == ("ceph", "x")


def test_a_region_of_oss_goes_without_its_prefix() -> None:
    text = f'[origin]\nendpoint = "https://store.example"\ndialect = "oss"\nregion = "oss-cn-beijing"\n{KEY}'
    assert settings(text).all_origins[0].region == "cn-beijing"


def test_an_oss_origin_without_a_credential_is_warned_about() -> None:
    origin = '[origin]\nendpoint = "https://oss-cn-hangzhou.aliyuncs.com"\n'
    assert "the AWS provider chain" in "".join(load(origin + KEY + GRANT).warnings)
    assert load(f"{origin}anonymous = true\n{KEY}{GRANT}").warnings == ()


def test_rules_keep_their_order() -> None:
    text = MINIMAL + '[[rules]]\npath = "b/**"\nfreshness = "immutable"\n[[rules]]\npath = "**"\nwarm_on_write = true\n'
    assert settings(text).rules == (Rule("b/**", freshness=Immutable()), Rule("**", warm_on_write=True))


def test_a_secret_others_can_read_is_warned_about() -> None:
    text = MINIMAL + '[[auth.keys]]\nid = "other"\nsecret_env = "T"\n' + GRANT + '[server]\nadmin_token = "t"\n'
    assert load(text, {"T": "s"}).warnings == ()
    warnings = load(text, {"T": "s"}, mode=0o640).warnings
    assert len(warnings) == 2
    assert all(any(where in warning for warning in warnings) for where in ("auth.keys[0].secret", "server.admin_token"))
    assert "tell-nobody" not in "".join(warnings)
    # What came from elsewhere is not in the file.
    assert load(ORIGIN, {"FOREBAY_AUTH__KEYS": '[{"id": "t", "secret": "s"}]'}, mode=0o644).warnings == (
        "auth.keys[0] (t) has no grants: it may do nothing",
    )


def test_no_secret_is_shown() -> None:
    text = (
        '[server]\nadmin_token = "tell-nobody-1"\n[origin]\nendpoint = "https://h"\naccess_key = "AK"\n'
        'secret_key = "tell-nobody-2"\nsession_token = "tell-nobody-3"\n'
        '[[auth.keys]]\nid = "t"\nsecret = "tell-nobody-4"\nsession_token = "tell-nobody-5"\n'
    )
    loaded = load(text, mode=0o644)
    assert "tell-nobody" not in repr(loaded) + str(loaded)
    assert repr(loaded).count("Secret(***)") == 5


@pytest.mark.parametrize("name", ["minimal.toml", "sidecar.toml", "node-daemon.toml"])
def test_the_examples_load(name: str) -> None:
    def secret(path: str) -> str:
        return f"secret of {path}\n"

    loaded = load_settings((CONFIG / name).read_text(), {"LAPTOP_SECRET": "s"}, {}, secret, mode=0o644)
    assert loaded.warnings == ()
