"""Kernels as files: PTX text, and what a program needs to launch it, as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from featherlane.backends.cuda.stages import Kernels

FORMAT = 1  # of the JSON; docs/gpu.md describes it


def files(name: str, kernels: Kernels, dtype: np.dtype) -> dict[str, str]:
    """The text of NAME.ptx and of NAME.json."""
    return {f"{name}.ptx": kernels.text, f"{name}.json": as_json(launches(kernels, dtype))}


def as_json(told: dict[str, Any]) -> str:
    return json.dumps(told, indent=2) + "\n"


def launches(kernels: Kernels, dtype: np.dtype) -> dict[str, Any]:
    """What a program needs to launch kernels."""
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
        ],
        "launches": [
            {
                "kernel": launch.kernel,
                "threads": launch.threads,
                "shared_bytes": launch.shared,
                "states_of_a_block": launch.states,
                "grid_y": launch.columns,
            }
            for launch in kernels.launches
        ],
    }
