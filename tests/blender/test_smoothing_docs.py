# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of the documentation is what its script measures."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    """It finds its own modules beside it."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import smoothing_picture

    yield smoothing_picture
    sys.path.remove(str(ROOT / "benchmarks"))


def curves(svg: str) -> list[np.ndarray]:
    """The points ``(F, 2)`` of the lines with as many points as there are frames, in pixels."""
    lines = re.findall(r'<polyline points="([^"]*)"', svg)
    points = [np.array([pair.split(",") for pair in line.split()], float) for line in lines]
    return [line for line in points if len(line) > 10]


def test_the_picture_shows_what_is_solved(script: ModuleType, addon: ModuleType) -> None:
    found = script.solved()
    now, then = curves(script.drawn(found)), curves(script.PICTURE.read_text("utf-8"))
    assert len(now) == len(then) == 4
    for line, other in zip(now, then, strict=True):
        assert np.abs(line - other).max() < 1.0
    jitter = {width: np.abs(np.diff(values, n=2, axis=0)).mean(axis=0) for width, values in found.items()}
    assert (jitter[script.WIDTH] < 0.2 * jitter[0]).all()


def test_the_page_shows_the_picture(script: ModuleType) -> None:
    page = ROOT / "docs" / "settings.md"
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text("utf-8"))
    assert script.PICTURE in [(page.parent / link).resolve() for link in links]
