"""The one error of a benchmark: what was to be measured was not there."""


class UnexpectedResponse(Exception):
    """The response is not the expected one, so that there is nothing to time."""
