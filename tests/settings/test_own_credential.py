"""Whether Forebay's own credential is used, and whether it is a client's."""

from forebay.settings.loader import load_settings
from forebay.settings.model import Settings
from forebay.settings.own_credential import needs_own_credential, shared_key_warning

OPEN = '[server]\nlisten = "127.0.0.1:0"\n[origin]\nendpoint = "http://h"\n'
KEY = '[[auth.keys]]\nid = "trainer"\nsecret = "s"\ngrants = []\n'
WITH_ITS_OWN = KEY.replace("trainer", "alice") + 'origin_access_key = "there"\norigin_secret_key = "s"\n'


def settings(text: str) -> Settings:
    return load_settings(text, {}, {}, str).settings


def needs(made: Settings) -> bool:
    return needs_own_credential(made, made.all_origins[0])


def warning_of(made: Settings, access_key: str | None) -> str | None:
    return shared_key_warning(made, made.all_origins[0], access_key)


def test_keys_with_their_own_credential_need_no_other() -> None:
    assert needs(settings(OPEN + '[auth]\nmode = "open"\n'))
    assert needs(settings(OPEN + WITH_ITS_OWN + KEY))
    assert not needs(settings(OPEN + WITH_ITS_OWN))


def test_a_clients_key_in_the_provider_chain_is_warned_of() -> None:
    chain = settings(OPEN + KEY)
    assert warning_of(chain, "AKIAOURS") is None
    assert warning_of(chain, None) is None
    warning = warning_of(chain, "trainer")
    assert warning is not None
    assert "trainer" in warning
    assert "AWS_*" in warning


def test_a_configured_key_may_be_a_clients_too() -> None:
    fixed = OPEN + 'access_key = "trainer"\nsecret_key = "s"\n' + KEY
    assert warning_of(settings(fixed), "trainer") is None
