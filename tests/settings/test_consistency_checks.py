"""Several origins: what is inherited, and what is refused."""

import pytest

from forebay.core.errors import SettingsErrors
from forebay.settings.loader import Loaded, load_settings
from forebay.settings.model import AnonymousAccess, ProviderChain, StaticKey

KEY = '[[auth.keys]]\nid = "t"\nsecret = "s"\ngrants = [{ path = "**", allow = ["read"] }]\n'
FAR = '[[origins]]\nname = "far"\nbuckets = ["far-*"]\nendpoint = "https://s3.eu-west-1.amazonaws.com"\n'
OSS = '[[origins]]\nname = "oss"\nbuckets = ["o"]\nendpoint = "https://oss-cn-hangzhou.aliyuncs.com"\n'
DEFAULT = '[origin]\nendpoint = "http://h"\n'


def load(text: str, environ: dict[str, str] | None = None) -> Loaded:
    return load_settings(text + KEY, environ or {}, {}, str)


def test_an_origin_has_what_origin_says_of_patience_and_nothing_else() -> None:
    made = load(
        DEFAULT
        + 'access_key = "ours"\nsecret_key = "s"\nregion = "here"\n'
        + 'attempts = 7\nconnect_timeout = "9s"\nmax_run = "4MiB"\n'
        + FAR
        + "attempts = 2\n"
        + OSS
        + "anonymous = true\n"
    ).settings
    far, oss, default = made.all_origins
    assert (far.attempts, oss.attempts, default.attempts) == (2, 7, 7)
    assert far.connect_timeout == oss.connect_timeout == 9.0
    assert (far.region, far.dialect, far.credentials) == ("eu-west-1", "aws", ProviderChain())
    assert (oss.region, oss.dialect, oss.credentials) == ("cn-hangzhou", "oss", AnonymousAccess())
    assert isinstance(default.credentials, StaticKey)
    assert (far.name, far.buckets, default.name, default.buckets) == ("far", ("far-*",), "default", ())
    assert made.fetch.max_run == 4 << 20


def test_origin_may_go_without_an_endpoint() -> None:
    made = load('[origin]\nmax_run = "4MiB"\nattempts = 5\n' + FAR).settings
    assert (made.origin, [each.name for each in made.all_origins]) == (None, ["far"])
    assert (made.fetch.max_run, made.all_origins[0].attempts) == (4 << 20, 5)
    assert load(FAR).settings.origin is None


def test_origins_may_stand_in_the_environment() -> None:
    made = load("", {"FOREBAY_ORIGINS": '[{"name": "e", "buckets": ["b"], "endpoint": "http://e"}]'}).settings
    assert [(each.name, each.endpoint) for each in made.all_origins] == [("e", "http://e")]


@pytest.mark.parametrize(
    ("text", "where", "allowed"),
    [
        ("", "origin.endpoint", "http:// or https://"),
        (FAR + FAR, "origins[1].name", "no other origin has"),
        (FAR.replace('"far"', '"default"'), "origins[0].name", "that of [origin]"),
        (FAR.replace('"far"', '"a b"'), "origins[0].name", "letters, digits"),
        (FAR.replace('["far-*"]', "[]"), "origins[0].buckets", "names of buckets"),
        (FAR.replace("far-*", "far/**"), "origins[0].buckets", "no key"),
        (FAR.replace("far-*", "far***"), "origins[0].buckets", "three stars"),
        (FAR.replace("endpoint", "#"), "origins[0].endpoint", "http:// or https://"),
        (FAR + 'buckts = ["x"]\n', "origins[0].buckts", "buckets"),
        (FAR + 'access_key = "a"\n', "origins[0].secret_key", "since access_key is given"),
        (FAR + 'max_run = "1MiB"\n', "origins[0].max_run", "access_key, anonymous"),
        (FAR + 'cache_id = "x"\n' + OSS + 'cache_id = "x"\n', "origins[1].cache_id", "no other origin's cache"),
        (OSS.replace("oss-cn-hangzhou", "s3.oss-cn-hangzhou"), "origins[0].region", "the region of the bucket"),
        (FAR.replace("s3.eu", "my.data.s3.eu"), "origins[0].endpoint", "clients name: s3.eu-west-1.amazonaws.com"),
        (FAR.replace("s3.eu-west-1", "data.s3"), "origins[0].endpoint", "clients name: s3.amazonaws.com"),
        (
            OSS.replace("oss-cn", "data.oss-cn") + 'region = "cn-hangzhou"\n',
            "origins[0].endpoint",
            "clients name: oss-cn-hangzhou.aliyuncs.com",
        ),
        ('[origin]\nregion = "r"\n' + FAR, "origin.region", "since origin.endpoint is not given"),
        (
            FAR + KEY.replace('"t"', '"u"') + 'origin_names = ["far"]\n',
            "auth.keys[0].origin_names",
            "no origin credential",
        ),
        (
            FAR + KEY.replace('"t"', '"u"').replace("grants", 'origin_profile = "p"\norigin_names = ["near"]\ngrants'),
            "auth.keys[0].origin_names",
            "names of origins: far",
        ),
    ],
)
def test_refused(text: str, where: str, allowed: str) -> None:
    with pytest.raises(SettingsErrors) as refused:
        load(text)
    problems = {problem.where: str(problem) for problem in refused.value.problems}
    assert where in problems, problems
    assert allowed in problems[where]


@pytest.mark.parametrize(
    "host",
    [
        "s3.dualstack.eu-west-1.amazonaws.com",
        "s3-fips.us-east-1.amazonaws.com",
        "bucket.vpce-0a1b2c3d-4e5f6g7h.s3.us-east-1.vpce.amazonaws.com",
        "minio.s3.example.com",
    ],
)
def test_an_endpoint_without_a_bucket_is_accepted(host: str) -> None:
    assert load(FAR.replace("s3.eu-west-1.amazonaws.com", host)).settings.all_origins[0].endpoint == f"https://{host}"


def test_patterns_that_match_nothing_are_warned_about() -> None:
    warnings = load(FAR + FAR.replace('"far"', '"again"') + DEFAULT).warnings
    assert any("origins[1] (again) has no buckets" in warning for warning in warnings), warnings
    warnings = load(FAR.replace("far-*", "*") + DEFAULT).warnings
    assert any(warning.startswith("origin has no buckets") for warning in warnings), warnings


@pytest.mark.parametrize(
    ("cache", "journal", "is_refused"),
    [
        ("/d/cache", "/d/cache/journal", True),
        ("/d/cache", "/d/cache/../cache", True),
        ("/d/journal/cache", "/d/journal", True),
        ("/d/cache", "/d/cache-journal", False),
        ("/d/cache", "/d/journal", False),
    ],
)
def test_a_journal_is_apart_from_the_cache(*, cache: str, journal: str, is_refused: bool) -> None:
    tables = f'[ssd]\npath = "{cache}"\nsize = "1GiB"\n[journal]\npath = "{journal}"\nsize = "1GiB"\n'
    if not is_refused:
        load(DEFAULT + tables)
        return
    with pytest.raises(SettingsErrors) as refused:
        load(DEFAULT + tables)
    assert refused.value.where == "journal.path"
    assert "a cache may be deleted" in refused.value.allowed
