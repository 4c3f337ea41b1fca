# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of docs/settings.md: a target with jitter, the same target smoothed, and the knee.

    python benchmarks/smoothing_picture.py

Needs `bpy`. Both legs are solved in Blender, frame by frame; writes docs/images/smoothing.svg.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import bpy
import numpy as np
import rigs

from ik_addon.blender import chains
from ik_addon.core.smoothing import window

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "smoothing.svg"
FRAMES = range(1, 101)
WIDTH = 5
JITTER = 0.004  # metres
RAW, SMOOTH, INK, GRID = "#e07b39", "#1f5fa8", "#333333", "#dddddd"
SIZE = (900, 540)


@dataclass(frozen=True)
class Panel:
    """A plot inside the picture: its frame in pixels, and the values at the edges of it."""

    title: str
    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, x: float, y: float) -> tuple[float, float]:
        """A value in pixels."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + across * self.width, self.top + (1.0 - up) * self.height

    def axes(self, xs: Sequence[float], ys: Sequence[float], unit: str) -> list[str]:
        """Title, grid and numbers."""
        out = [text(self.left, self.top - 10, self.title, weight="bold")]
        for y in ys:
            _, v = self.place(self.x[0], y)
            out.append(line([(self.left, v), (self.left + self.width, v)], GRID, 1))
            out.append(text(self.left - 8, v + 4, f"{y:g}{unit}", anchor="end"))
        for x in xs:
            u, _ = self.place(x, self.y[0])
            out.append(text(u, self.top + self.height + 18, f"{x:g}", anchor="middle"))
        return out

    def curve(self, xs: Sequence[float], ys: Sequence[float], color: str, width: float) -> str:
        """A line through values."""
        return line([self.place(x, y) for x, y in zip(xs, ys, strict=True)], color, width)


def line(points: Sequence[tuple[float, float]], color: str, width: float) -> str:
    """A polyline."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    look = f'fill="none" stroke="{color}" stroke-width="{width}" stroke-linejoin="round"'
    return f'<polyline points="{path}" {look}/>'


def text(
    x: float, y: float, words: str, anchor: str = "start", weight: str = "normal", color: str = INK
) -> str:
    """A line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="13" text-anchor="{anchor}"'
        f' font-weight="{weight}" fill="{color}">{words}</text>'
    )


def box(x: float, y: float, width: float, height: float, color: str) -> str:
    """A filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def solved() -> dict[int, np.ndarray]:
    """By half-width: height of the ankle in centimetres, and bend of the knee in degrees, ``(F, 2)``."""
    ob, (target,) = rigs.legs(1)
    target.animation_data_clear()
    hip = ob.matrix_world @ ob.pose.bones["leg0.0"].bone.head_local
    noise = np.random.default_rng(7)
    for frame in FRAMES:
        step = 2.0 * np.pi * frame / 50.0
        path = np.array((0.0, -0.18 * np.cos(step), 0.012 + 0.08 * max(0.0, np.sin(step)) - hip.z))
        target.location = np.array(hip) + path + JITTER * noise.normal(size=3)
        target.keyframe_insert("location", frame=frame)
    here = {"target_space": "CUSTOM", "target": target, "target_location": (0.0, 0.0, 0.0)}
    chain = chains.add(ob, "leg0.0", "leg0.1", **here)
    found = {}
    for width in (0, WIDTH):
        chain.smooth_frames = width
        found[width] = np.array([measured(ob, frame) for frame in FRAMES])
    return found


def measured(ob: bpy.types.Object, frame: int) -> tuple[float, float]:
    """Height of the ankle and bend of the knee as Blender evaluates them."""
    bpy.context.scene.frame_set(frame)
    bones = ob.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
    thigh, shin = bones["leg0.0"], bones["leg0.1"]
    bend = (thigh.tail - thigh.head).angle(shin.tail - shin.head)
    return 100.0 * shin.tail.z, float(np.degrees(bend))


def drawn(found: dict[int, np.ndarray]) -> str:
    """The picture as SVG."""
    raw, smooth = found[0], found[WIDTH]
    ankle = Panel("Ankle, on its target: height, cm", 60, 60, 520, 175, (1, 100), (0, 12))
    knee = Panel("Knee: bend", 60, 300, 520, 175, (1, 100), (0, 60))
    weights = window(WIDTH)
    bars = Panel(f"Window of Smooth Frames {WIDTH}", 650, 60, 220, 175, (-6.5, 6.5), (0, 0.18))
    parts = ankle.axes(range(0, 101, 20)[1:], (0, 4, 8, 12), "")
    parts += knee.axes(range(0, 101, 20)[1:], (0, 20, 40, 60), "°")
    for panel, column in ((ankle, 0), (knee, 1)):
        parts.append(panel.curve(FRAMES, raw[:, column], RAW, 1.5))
        parts.append(panel.curve(FRAMES, smooth[:, column], SMOOTH, 2.5))
    parts.append(text(320, 512, "frame", anchor="middle"))
    parts += bars.axes(range(-6, 7, 2), (0, 0.05, 0.1, 0.15), "")
    for k, weight in zip(range(-WIDTH, WIDTH + 1), weights, strict=True):
        (left, bottom), (right, top) = bars.place(k - 0.35, 0.0), bars.place(k + 0.35, weight)
        parts.append(box(left, top, right - left, bottom - top, SMOOTH))
    parts.append(text(760, 272, "frames from the present one", anchor="middle"))
    for y, color, words in (
        (330, RAW, "Smooth Frames 0: the target itself"),
        (354, SMOOTH, f"Smooth Frames {WIDTH}"),
    ):
        parts.append(line([(630, y - 4), (655, y - 4)], color, 2.5))
        parts.append(text(663, y, words))
    width, height = SIZE
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    start = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', box(0, 0, width, height, "white")]
    return "\n".join([*start, *parts, "</svg>\n"])


if __name__ == "__main__":
    with rigs.addon():
        motion = solved()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(drawn(motion), encoding="utf-8")
    for half_width, values in motion.items():
        jerk = np.abs(np.diff(values, n=2, axis=0)).mean(axis=0)
        print(f"Smooth Frames {half_width}: mean second difference {jerk[0]:.3f} cm, {jerk[1]:.2f} degrees")
