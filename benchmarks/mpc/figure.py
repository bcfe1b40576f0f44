"""A figure of closed loops: the height of the base, and where the hand is and is to be."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from loop import Record

from featherlane.tools.figures import BLUE, GREEN, INK, ORANGE, STYLE, save


def draw(file: Path, records: dict[str, Record]) -> None:
    """Draws one column for the first seed of each controller."""
    plt.rcParams.update(STYLE)
    shown = {name[:-2]: record for name, record in records.items() if name.endswith(" 0")}
    figure, axes = plt.subplots(
        3, len(shown), figsize=(4.2 * len(shown), 6.0), sharex=True, sharey="row", squeeze=False
    )
    for column, (name, r) in zip(axes.T, shown.items(), strict=True):
        column[0].set_title(f"{name}, {r.rates.mean():.0f} Hz")
        column[0].plot(r.time, r.base[:, 2], color=BLUE)
        for axis, row, what, hue in ((1, 1, "y", ORANGE), (2, 2, "z", GREEN)):
            column[row].plot(r.time, r.hand_wanted[:, axis], "--", color=INK, lw=1, label="wanted")
            column[row].plot(r.time, r.hand[:, axis], color=hue, label="hand")
            column[row].set_ylabel(f"hand {what}, m")
        column[2].set_xlabel("time, s")
    axes[0, 0].set_ylabel("height of the base, m")
    axes[0, 0].set_ylim(0.3, 0.6)
    axes[1, 0].set_ylim(-0.17, 0.13)
    axes[1, 0].legend(loc="lower center", ncols=2, fontsize=8)
    figure.tight_layout()
    save(figure, file, "A quadruped trots: the height of its base, and its hand")
