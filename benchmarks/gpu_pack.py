"""Which kernels, states and results does a run on a GPU need? They are written into a folder, so
that nothing is traced or compiled for the CPU while a GPU is at hand.

In the order in which they are measured: a function of each form for the smoke test; all functions
of five robots in both dtypes; teams of warps; robots of many links. The results are the CPU's, of
37 states, which is no multiple of a warp, so that each state comes to each lane of larger batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import gpu_packed
import numpy as np
from gpu_packed import CHAIN, Facts, Packed
from options import parser
from robots import SHORT, as_tuple, chosen, say

import featherlane as fl
from featherlane.api.model import Model
from featherlane.functions.function import Function
from featherlane.functions.long.on_gpu import LongOnGPU
from featherlane.functions.table import Variant

STATES = 37
ROBOTS = ("iiwa14", "hyq:free", "quadruped_arm:free", "atlas:free", "g1:free")
NAMES = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "mass_matrix_inverse",
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
)
DERIVATIVES = NAMES[4:]
DTYPES = ("float32", "float64")  # goals are stated for the first one
F32 = DTYPES[:1]


class Wanted(NamedTuple):
    """Functions of a robot, each in these dtypes and by these mappings. form: see `Facts`."""

    robot: str
    functions: tuple[str | Variant, ...]
    dtypes: tuple[str, ...] = DTYPES
    mappings: tuple[str, ...] = ("lanes",)
    form: str = ""


class One(NamedTuple):
    """A function of a robot in a dtype by a mapping."""

    robot: str
    function: str | Variant
    dtype: str
    mapping: str
    form: str


FORMS = (  # one of each form of kernels: see docs/gpu_kernels.md
    Wanted("iiwa14", ("forward_dynamics",), DTYPES, ("lanes",), "lanes"),
    Wanted("iiwa14", ("inverse_dynamics",), F32, ("lanes",), "pitch"),
    Wanted("hyq:free", DERIVATIVES[1:], F32, ("lanes",), "scratch"),
    Wanted("iiwa14", DERIVATIVES[1:], F32, ("team:4",), "teams"),
    Wanted("g1:free", DERIVATIVES[1:], F32, ("lanes",), "columns"),
    Wanted("iiwa14", (Variant("step", integrator="rk4"),), F32, ("lanes",), "plans"),
    Wanted("iiwa14", (Variant("rollout", integrator="rk4", steps=4),), DTYPES, ("lanes",), "plans"),
    Wanted(CHAIN, (Variant("inverse_dynamics", method="serial"),), F32, ("links:32",), "links"),
    Wanted(CHAIN, (Variant("forward_dynamics", method="aba"),), F32, ("links:1/2",), "links"),
)
FEW_FORMS = (0, 1, 3, 6, 7)  # of what the emulator runs quickly: with --quick
ROLLOUT = Variant("rollout", integrator="semi_implicit", steps=32)
SUITE = (
    *(Wanted(robot, NAMES) for robot in ROBOTS),
    Wanted("iiwa14", DERIVATIVES, F32, ("team:2", "team:8")),
    Wanted("hyq:free", DERIVATIVES, F32, ("team:2", "team:4", "team:8")),
    Wanted("atlas:free", DERIVATIVES[:1], F32, ("team:2", "team:4", "team:8")),
    Wanted("g1:free", DERIVATIVES[:1], F32, ("team:2", "team:4", "team:8")),
    Wanted("g1:free", DERIVATIVES[1:], F32, ("team:8",)),
    *(Wanted(robot, (ROLLOUT,), F32) for robot in ROBOTS[:2]),
    Wanted(CHAIN, (Variant("inverse_dynamics", method="serial"),), F32, ("links:1", "links:4")),
    Wanted(CHAIN, (Variant("forward_dynamics", method="aba"),), F32, ("links:1", "links:4")),
)
FEW = (Wanted("iiwa14", NAMES[:2], F32), Wanted("iiwa14", DERIVATIVES, F32, ("lanes", "team:2")))


def packed(model: Model, wanted: str | Variant, dtype: str, mapping: str) -> Packed:
    """A function of a robot: its kernels by a mapping, states, and the CPU's results."""
    variant = wanted if isinstance(wanted, Variant) else Variant(wanted)
    function = model._function(variant)
    on_gpu = function.gpu
    if mapping.startswith("links"):
        on_gpu = LongOnGPU(f"pack {model.name}", model, variant, mapping)
    assert on_gpu is not None
    name = SHORT.get(variant.name, variant.name)
    inputs = _inputs(model, function, dtype)
    results = as_tuple(function(*inputs))
    return Packed(on_gpu.kernels(mapping, name, np.dtype(dtype)), inputs, results)


def _inputs(model: Model, function: Function, dtype: str) -> list[np.ndarray]:
    """Random states; steps of time are 1 ms."""
    rng = np.random.default_rng(0)

    def made(name: str, core: tuple[int, ...]) -> np.ndarray:
        if name == "q":
            return model.random_configuration(STATES, seed=rng)
        return (
            np.full((STATES, *core), 1e-3) if name == "dt" else rng.uniform(-1, 1, (STATES, *core))
        )

    return [made(*each).astype(dtype) for each in function.inputs.items()]


def facts(number: int, each: One, function: Packed) -> Facts:
    """What the index says of a file."""
    told = each.function if isinstance(each.function, str) else _told(each.function)
    name = f"{number:03d}-{each.robot}-{told}-{each.dtype}-{each.mapping}"
    file = "".join(x if x.isalnum() or x == "-" else "_" for x in name)
    counts = function.row_bytes, function.scratch_bytes(), function.operations()
    work = function.kernels.work
    return Facts(
        f"{file}.zip", each.robot, told, each.dtype, each.mapping, each.form, *counts, work
    )


def _told(variant: Variant) -> str:
    steps = f"{variant.steps} steps" if variant.steps else ""
    return ", ".join(filter(None, (variant.name, variant.method, variant.integrator, steps)))


def every(wanted: Iterable[Wanted]) -> Iterator[One]:
    """Each function, dtype and mapping alone."""
    for each in wanted:
        for function, dtype, mapping in product(each.functions, each.dtypes, each.mappings):
            yield One(each.robot, function, dtype, mapping, each.form)


def _model(name: str) -> Model:
    if name == CHAIN:
        return fl.chain(int(CHAIN.removeprefix("chain")), seed=1)
    (robot,) = chosen([name])
    return fl.load(str(robot.urdf), root=robot.root)


def write(folder: Path, wanted: Iterable[Wanted]) -> list[Facts]:
    """Writes a pack, and returns what its index says."""
    folder.mkdir(parents=True, exist_ok=True)
    models: dict[str, Model] = {}
    listed: list[Facts] = []
    for number, each in enumerate(every(wanted)):
        model = models.setdefault(each.robot, models.get(each.robot) or _model(each.robot))
        function = packed(model, each.function, each.dtype, each.mapping)
        listed.append(facts(number, each, function))
        gpu_packed.write(folder, listed[-1], function)
        say(listed[-1].file)
    gpu_packed.write_index(folder, listed, featherlane=fl.__version__)
    return listed


def main() -> None:
    options = parser(__doc__, quick=False)
    options.add_argument("folder", type=Path, help="for the pack, such as .gpu/pack")
    args = options.parse_args()
    forms = [FORMS[k] for k in FEW_FORMS] if args.quick else FORMS
    listed = write(args.folder, (*forms, *(FEW if args.quick else SUITE)))
    size = sum(file.stat().st_size for file in args.folder.iterdir())
    print(f"{len(listed)} functions, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
