"""The folder of a wrapped design: sources, test bench with vectors, page, scripts, facts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.backends.fpga import words
from featherlane.backends.fpga.board.bench import bench
from featherlane.backends.fpga.board.document import page
from featherlane.backends.fpga.board.host import BoardFacts
from featherlane.backends.fpga.board.packets import PacketLayout
from featherlane.backends.fpga.board.vivado import scripts
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.folder import (
    BOARD_FACTS,
    VECTORS,
    WANTED,
    with_bench,
    write_files,
)


def facts_of(board: WrappedCore) -> BoardFacts:
    """The layouts and the hash that a host needs to drive a board."""
    return BoardFacts(board.name, board.hash, board.tasks, board.results, board.core.functions)


def write(
    board: WrappedCore,
    folder: str | Path,
    inputs: Mapping[str, Any],
    results: Mapping[str, Any],
    part: str | None = None,
) -> list[Path]:
    """Writes a wrapped design with the vectors of some tasks, and returns the files.

    inputs, results: numbers (tasks, *shape) by name; part: the device in Vivado, whose scripts are
    left out without one. Sources of an earlier design of this name are removed. Raises ValueError
    for a folder with another design, and for one that cannot be written to.
    """
    tasks = len(next(iter(inputs.values())))
    texts = {
        **with_bench(board.sources, bench(board, tasks)),
        VECTORS: beats(board.tasks, inputs, tasks),
        WANTED: beats(board.results, results, tasks),
        BOARD_FACTS: json.dumps(facts_of(board).to_json(), indent=1) + "\n",
        "board.md": page(board),
        **(scripts(board, part) if part else {}),
    }
    return write_files(texts, folder, board.core.name)


def beats(layout: PacketLayout, values: Mapping[str, Any], tasks: int) -> str:
    """The beats of tasks in lines of digits, for $readmemh."""
    buffer = np.zeros((tasks, layout.size), np.uint8)
    layout.encode(values, buffer)
    return words.hexadecimal(buffer.reshape(tasks * layout.beats, -1), layout.width)
