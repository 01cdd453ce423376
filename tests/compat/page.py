"""The table in docs/clients.md: made from clients.toml, which the tests hold the clients to.

PYTHONPATH=tests .venv/bin/python -m compat.page      writes it
"""

from typing import Final

from compat.clients import DEEDS, ROOT, Client, load_clients

PAGE: Final = ROOT / "docs" / "clients.md"
BEGIN: Final = "<!-- made by compat.page from tests/compat/clients.toml: begin -->"
END: Final = "<!-- end -->"
_SOURCES: Final = {"pip": "PyPI", "npm": "npm", "debian": "Debian 12"}


def rendered() -> str:
    """The page as it has to be: what was written by hand around the tables as they are now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{_tables(load_clients())}\n{END}{after}"


def _tables(clients: tuple[Client, ...]) -> str:
    lines = []
    for speaks in ("s3", "oss"):
        rows = [client for client in clients if client.speaks == speaks]
        deeds = [deed for deed in DEEDS if any(deed in client.does for client in rows)]
        lines += [_row(f"{speaks.upper()} client", "version", "from", *deeds), _row(*["---"] * (3 + len(deeds)))]
        for client in rows:
            marks = ["yes" if deed in client.does else "" for deed in deeds]
            lines.append(_row(client.title, client.version, _SOURCES[client.source], *marks))
        lines.append("")
    lines += [_row("deed", "what is done"), _row("---", "---")]
    lines += [_row(deed, meaning) for deed, meaning in DEEDS.items()]
    lines += ["", _row("client", "how it is pointed at Forebay", "packages"), _row("---", "---", "---")]
    for client in clients:
        lines.append(_row(client.title, client.points, ", ".join(f"`{package}`" for package in client.packages)))
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
