"""Plots of a few curves as SVG: small, without a library, readable on a light and a dark page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

_WIDTH: Final = 560
_HEIGHT: Final = 360
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 16, 16, 44
_COLOURS: Final = ("#888888", "#3b78c2", "#c2603b", "#3b78c2", "#5a9a4a")


class Curve(NamedTuple):
    """Points with x and y from 0 to 1, the first coordinate ascending."""

    title: str
    points: tuple[tuple[float, float], ...]
    is_line: bool = False
    """A line without marks: a law; else marks: measurements."""


def write_plot(path: Path, curves: Sequence[Curve], x_title: str, y_title: str) -> None:
    """Draw the curves into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plot_svg(curves, x_title, y_title), encoding="utf-8")


def plot_svg(curves: Sequence[Curve], x_title: str, y_title: str) -> str:
    """The drawing, both axes from 0 to 1."""
    body = [*_axes(x_title, y_title)]
    for number, curve in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        body += _drawn(curve, colour)
        body.append(_text(_LEFT + 34, _TOP + 16 + 18 * number, escape(curve.title), "start"))
        legend = [(_LEFT + 10, _TOP + 12 + 18 * number), (_LEFT + 28, _TOP + 12 + 18 * number)]
        body += _line(legend, colour) if curve.is_line else _mark(_LEFT + 19, _TOP + 12 + 18 * number, colour)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
    )
    return head + "\n".join(body) + "\n</svg>\n"


def _axes(x_title: str, y_title: str) -> list[str]:
    lines = []
    for tenth in range(0, 11, 2):
        x, y = _at(tenth / 10, tenth / 10)
        lines += _line([(x, _TOP), (x, _HEIGHT - _BOTTOM)], "#dddddd")
        lines += _line([(_LEFT, y), (_WIDTH - _RIGHT, y)], "#dddddd")
        lines.append(_text(x, _HEIGHT - _BOTTOM + 16, f"{tenth / 10:.1f}", "middle"))
        lines.append(_text(_LEFT - 8, y + 4, f"{tenth / 10:.1f}", "end"))
    lines.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, escape(x_title), "middle"))
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    turned = f' transform="rotate(-90 14 {middle:g})"'
    lines.append(_text(14, middle, escape(y_title), "middle", turned))
    return lines


def _drawn(curve: Curve, colour: str) -> list[str]:
    points = [_at(x, y) for x, y in curve.points]
    if curve.is_line:
        return _line(points, colour)
    return [mark for x, y in points for mark in _mark(x, y, colour)]


def _at(x: float, y: float) -> tuple[float, float]:
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    return _LEFT + x * width, _TOP + (1 - y) * height


def _line(points: Sequence[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>']


def _mark(x: float, y: float, colour: str) -> list[str]:
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>']


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#333333"{more}>{text}</text>'
