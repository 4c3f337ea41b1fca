# SPDX-License-Identifier: GPL-3.0-or-later
"""A body as plain data: its bones at rest, and the limbs that are found among them."""

from __future__ import annotations

from dataclasses import dataclass

ARMS, LEGS, TAILS = "ARMS", "LEGS", "TAILS"


@dataclass(frozen=True)
class RestBone:
    """A bone at rest.

    Attributes:
        parent: its name, or an empty string.
        head, tail: in one frame for all bones, any unit.
        connected: its head is fixed to the tail of its parent. Importers that guess at tails connect none.
        deforms: it moves a mesh.
        blocked: why no chain may turn it, or an empty string.
    """

    name: str
    parent: str
    head: tuple[float, float, float]
    tail: tuple[float, float, float]
    connected: bool = False
    deforms: bool = True
    blocked: str = ""


@dataclass(frozen=True)
class Limb:
    """A limb, and how it is solved.

    Attributes:
        part: `ARMS`, `LEGS` or `TAILS`.
        name: for its chain.
        turned: the bones that turn, root first.
        end: the bone whose head is the tip, or an empty string: the tail of the last one is.
        solver, limb_mode: as the settings of a chain; the mode is that of THREE_BONE, else empty.
        carrier: the bone that it hangs on, or an empty string.
        in_front: a leg is one of the front.
    """

    part: str
    name: str
    turned: tuple[str, ...]
    end: str
    solver: str
    limb_mode: str = ""
    carrier: str = ""
    in_front: bool = False


@dataclass(frozen=True)
class LeftOut:
    """A limb that seems to be there and is not set up, with the reason as the rest of a sentence."""

    part: str
    name: str
    reason: str


@dataclass(frozen=True)
class Found:
    """What was found of a body.

    Attributes:
        limbs: arms first, then legs and tails; left_out: what seems to be there, but is not set up.
        on_four_feet: it has forelegs, in place of arms or beside them.
    """

    limbs: tuple[Limb, ...]
    left_out: tuple[LeftOut, ...]
    on_four_feet: bool = False
