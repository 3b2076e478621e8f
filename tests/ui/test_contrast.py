"""The colours of the page keep the contrast that WCAG 2.2 AA asks of text: 4.5 to 1."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stayer

CSS = (Path(stayer.__file__).parent / "ui" / "base.css").read_text()
BLOCKS = {
    "dark": r":root \{(.*?)\}",
    "light": r':root\[data-theme="light"\] \{(.*?)\}',
    "light by preference": r":root:not\(\[data-theme\]\) \{(.*?)\}",
}
MOODS = ("running", "pending", "complete", "failed", "warn", "cancelled")
TEXTS = ("text", "soft", "faint", "accent", *MOODS)
LEAST = 4.5

Colour = tuple[float, float, float]


def variables(theme: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in dict.fromkeys(("dark", theme)):
        block = re.search(BLOCKS[name], CSS, re.DOTALL)
        assert block, name
        found |= dict(re.findall(r"--([\w-]+): ([^;]+);", block[1]))
    return found


def colour(written: str) -> Colour:
    assert re.fullmatch("#[0-9a-f]{6}", written), written
    red, green, blue = (int(written[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def luminance(of: Colour) -> float:
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in of)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mixed(one: Colour, other: Colour, part: float) -> Colour:
    red, green, blue = (a * part + b * (1 - part) for a, b in zip(one, other, strict=True))
    return red, green, blue


@pytest.mark.parametrize("theme", BLOCKS)
def test_text_can_be_read_on_every_ground(theme: str) -> None:
    named = variables(theme)
    faint = [
        f"{text} on {ground}: {found:.2f}"
        for ground in ("page", "card", "raised")
        for text in TEXTS
        if (found := contrast(colour(named[text]), colour(named[ground]))) < LEAST
    ]
    assert not faint


@pytest.mark.parametrize("theme", BLOCKS)
def test_badges_and_buttons_can_be_read(theme: str) -> None:
    named = variables(theme)
    tint = float(named["tint"].rstrip("%")) / 100
    faint = [
        f"badge {mood} on {ground}: {found:.2f}"
        for ground in ("page", "card")
        for mood in MOODS
        if (
            found := contrast(
                colour(named[mood]), mixed(colour(named[mood]), colour(named[ground]), tint)
            )
        )
        < LEAST
    ]
    assert not faint
    assert contrast(colour(named["on-accent"]), colour(named["accent-strong"])) >= LEAST


def test_both_light_themes_are_the_same() -> None:
    assert variables("light") == variables("light by preference")
