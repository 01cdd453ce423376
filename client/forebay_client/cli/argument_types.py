"""The types of command-line arguments: functions of the text, whose errors argparse shows with their sentence."""

import argparse
import math
from collections.abc import Callable
from typing import TypeVar

from forebay_client.cli.admin_address import AdminAddress, parse_admin_address
from forebay_client.cli.s3_location import Location, parse_location

T = TypeVar("T")


def admin_address(text: str) -> AdminAddress:
    """`HOST:PORT` of an admin port."""
    return _explained(parse_admin_address, text)


def endpoint(text: str) -> str:
    """A URL of http or https."""
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL; an endpoint looks like http://127.0.0.1:9000")
    return text


def location(text: str) -> Location:
    """`s3://bucket/prefix`."""
    return _explained(parse_location, text)


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    return _number(text, 1)


def worker_count(text: str) -> int | str:
    """A whole number of 0 or more, or "auto"."""
    if text != "auto" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f'{text!r} is neither a whole number nor "auto"')
    return text if text == "auto" else _number(text, 0)


def interval(text: str) -> float:
    """Seconds from 0.1 to 3600."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 3600")
    return seconds


def _number(text: str, least: int) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    return int(text)


def _explained(parse: Callable[[str], T], text: str) -> T:
    """argparse shows the message of ArgumentTypeError; a ValueError's it replaces with "invalid value"."""
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
