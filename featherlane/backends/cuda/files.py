"""Kernels as files: PTX text, and what a program needs to launch it, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.backends.cuda.stages import GpuKernels

FORMAT = 2  # of the JSON; docs/gpu.md describes it
# Parameters behind the others, by their number: of plans with long loops, and of recorded programs
ARGUMENTS = ((), ("iteration of its loop",), ("first segment", "end of the segments"))


def files(name: str, kernels: GpuKernels, dtype: np.dtype) -> dict[str, str]:
    """The texts of NAME.ptx, or of NAME_0.ptx and so on, and of NAME.json."""
    names = names_of(name, "ptx", kernels)
    texts = dict(zip(names, kernels.texts, strict=True))
    return {**texts, f"{name}.json": as_json(launches(kernels, dtype, names))}


def names_of(name: str, ending: str, kernels: GpuKernels) -> list[str]:
    """The names of the files of all texts."""
    parts = len(kernels.texts)
    return [f"{name}_{k}.{ending}" if parts > 1 else f"{name}.{ending}" for k in range(parts)]


def as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def launches(kernels: GpuKernels, dtype: np.dtype, names: Sequence[str]) -> dict[str, Any]:
    """Describes for a program how to launch kernels, which are in files of these names."""
    arrays = [*kernels.inputs.items(), *kernels.outputs.items()]
    return {
        "format": FORMAT,
        "dtype": dtype.name,
        "inputs": [{"name": x, "shape": [*shape]} for x, shape in kernels.inputs.items()],
        "outputs": [{"name": x, "shape": [*shape]} for x, shape in kernels.outputs.items()],
        "scratch_bytes_for_32_states": 32 * kernels.slots * dtype.itemsize,
        "parameters": [
            *(
                f"{what} of {x}"
                for x, _ in arrays
                for what in ("address", "bytes from state to state")
            ),
            "address of the scratch memory",
            "number of states",
            *ARGUMENTS[len(kernels.launches[0].arguments)],
        ],
        "launches": [
            {
                "file": names[launch.text],
                "kernel": launch.kernel,
                "threads": launch.threads,
                "shared_bytes": launch.shared,
                "states_of_a_tile": launch.states,
                "columns": launch.columns,
                "pairs_of_a_block": launch.pairs,
                "arguments": [*launch.arguments],
            }
            for launch in kernels.launches
        ],
    }
