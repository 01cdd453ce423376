"""Whether Forebay's own credential is used, and whether it is a client's."""

from forebay.settings.loader import load_settings
from forebay.settings.model import Settings
from forebay.settings.own_credential import needs_own_credential, shared_key_warning

OPEN = '[server]\nlisten = "127.0.0.1:0"\n[origin]\nendpoint = "http://h"\n'
KEY = '[[auth.keys]]\nid = "trainer"\nsecret = "s"\ngrants = []\n'
WITH_ITS_OWN = KEY.replace("trainer", "alice") + 'origin_access_key = "there"\norigin_secret_key = "s"\n'


def settings(text: str) -> Settings:
    return load_settings(text, {}, {}, str).settings


def test_keys_with_their_own_credential_need_no_other() -> None:
    assert needs_own_credential(settings(OPEN + '[auth]\nmode = "open"\n'))
    assert needs_own_credential(settings(OPEN + WITH_ITS_OWN + KEY))
    assert not needs_own_credential(settings(OPEN + WITH_ITS_OWN))


def test_a_clients_key_in_the_provider_chain_is_warned_of() -> None:
    chain = settings(OPEN + KEY)
    assert shared_key_warning(chain, "AKIAOURS") is None
    assert shared_key_warning(chain, None) is None
    warning = shared_key_warning(chain, "trainer")
    assert warning is not None
    assert "trainer" in warning
    assert "AWS_*" in warning


def test_a_configured_key_may_be_a_clients_too() -> None:
    fixed = OPEN + 'access_key = "trainer"\nsecret_key = "s"\n' + KEY
    assert shared_key_warning(settings(fixed), "trainer") is None
