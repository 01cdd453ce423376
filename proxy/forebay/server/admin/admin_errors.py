"""The admin port's refusals: `{"error": code, "message": sentence}` and a status. admin_server answers with them."""


class AdminRefusal(Exception):
    """The port refuses the request. `error` is for programs and stays as it is; `message` is for people."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        headers: dict[str, str] | None = None,
        details: dict[str, int] | None = None,
    ) -> None:
        self.status, self.error, self.message, self.headers = status, error, message, headers
        self.details = details
        super().__init__(f"{error}: {message}")


def bad_request(message: str) -> AdminRefusal:
    """The request can't be understood, or says something that isn't allowed."""
    return AdminRefusal(400, "bad_request", message)
