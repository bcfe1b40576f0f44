"""Bits of a packet: a task and a result of the iiwa14's inverse dynamics in beats of 128 bits

Writes docs/board.svg, and board_narrow.svg for narrow screens, from the layouts of the design.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from drawing import main
from matplotlib.figure import Figure

mpl.use("Agg")
import matplotlib.pyplot as plt

import featherlane as fl
from featherlane.backends.fpga.board.packets import PacketLayout
from featherlane.tools.figures import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE

ROBOT, FUNCTION, FORMAT = "iiwa14", "inverse_dynamics", "fitted"
INTERVAL, WIDTH = 4, 128  # cycles; bits of a beat
GAP = 0.5  # between fields, bits
HUES = {"q": BLUE, "v": GREEN, "a": PURPLE, "tau": ORANGE}


def packet(axes: Any, layout: PacketLayout, words: str, letters: float) -> None:
    """Fields of a task or of a result, a row for each beat: a field may go on in the next one."""
    for field, (first, bits) in zip(layout.words.fields, layout.places, strict=True):
        name, position = field.entries[0]
        pieces = _pieces(first, bits)
        widest = max(pieces, key=lambda piece: piece[2])
        for beat, bit, count in pieces:
            axes.barh(beat, count - GAP, 0.8, bit + GAP / 2, color=HUES[name])
            if (beat, bit, count) == widest:
                axes.text(bit + count / 2, beat, f"{name}{position + 1}", ha="center", va="center",
                          color="white", fontsize=letters)  # fmt: skip
    rest = layout.beats * WIDTH - layout.bits
    if rest:
        axes.barh(layout.beats - 1, rest, 0.8, WIDTH - rest, color="none", edgecolor=FAINT, lw=0.8)
    axes.set(xlim=(0, WIDTH), ylim=(layout.beats - 0.5, -0.5), yticks=range(layout.beats))
    axes.set_yticklabels([f"beat {n}" for n in range(layout.beats)])
    axes.set_xticks(range(0, WIDTH + 1, 32))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    used = layout.bits / (layout.beats * WIDTH)
    axes.set_title(f"{words}: {used:.0%} of the bits", fontsize=10, loc="left", color=INK)


def _pieces(first: int, bits: int) -> list[tuple[int, int, int]]:
    """(beat, its first bit, number of bits) of the parts of a field."""
    found = []
    while bits:
        beat, bit = divmod(first, WIDTH)
        count = min(bits, WIDTH - bit)
        found.append((beat, bit, count))
        first, bits = first + count, bits - count
    return found


def drawn(width: float, letters: float) -> Figure:
    made = fl.accelerator(fl.load(ROBOT), FUNCTION, interval=INTERVAL, format=FORMAT)
    wrapped = made.board(width=WIDTH, layout="packed").wrapped
    layouts = (wrapped.tasks, wrapped.results)
    figure, panels = plt.subplots(
        2, 1, figsize=(width, 3.6), height_ratios=[layout.beats for layout in layouts]
    )
    packet(panels[0], layouts[0], "a task", letters)
    packet(panels[1], layouts[1], "its result", letters)
    panels[1].set_xlabel("bit of TDATA")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main(lambda: drawn(7.6, 9), __file__, __doc__, lambda: drawn(4.7, 9))
