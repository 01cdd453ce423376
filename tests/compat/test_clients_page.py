"""The table of clients is whole, and docs/clients.md shows it as it is."""

import pytest

from compat.clients import DEEDS, ERRANDS, Client, load_clients
from compat.page import PAGE, rendered

CLIENTS = load_clients()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), "PYTHONPATH=tests .venv/bin/python -m compat.page"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_row_is_whole(client: Client) -> None:
    assert client.errand.is_file()
    assert [deed for deed in DEEDS if deed in client.does] == list(client.does)
    if client.source == "pip":
        assert all("==" in package for package in client.packages)
    if client.source == "npm":
        assert all("@" in package[1:] for package in client.packages)


def test_every_errand_has_its_row() -> None:
    errands = [path for path in ERRANDS.iterdir() if path.is_file() and path.name != "errand.mjs"]
    assert sorted(client.errand for client in CLIENTS) == sorted(errands)


def test_clients_sharing_an_environment_share_its_packages() -> None:
    packages: dict[str, set[tuple[str, ...]]] = {}
    for client in CLIENTS:
        packages.setdefault(client.place, set()).add(client.packages)
    assert [place for place, sets in packages.items() if len(sets) > 1] == []
