"""Which kernels, states and results does a run on a GPU need? They are written into a folder, so
that nothing is traced or compiled for the CPU while a GPU is at hand.

In the order in which they are measured: a function of each form for the smoke test; all functions
of five robots in both dtypes; teams of warps; rollouts, also on the ground; robots of many links.
The results are the CPU's, of 37 states, which is no multiple of a warp, so that each state comes to
each lane of larger batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import gpu_packed
import ground
import numpy as np
from gpu_packed import CHAIN, Facts, Packed
from options import parser
from robots import SHORT, as_tuple, chosen, say

import featherlane as fl
from featherlane.api.model import Model
from featherlane.backends.cuda.stages import GpuKernels
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


class OnGround(NamedTuple):
    """A rollout of a bundled robot with feet from near its stance, with a law of contact."""

    law: str

    def function(self, model: Model) -> Function:
        law = getattr(fl, self.law)()
        return model.function("rollout", ground=ground.GROUND, law=law, steps=ground.STEPS)

    def inputs(self, model: Model, robot: str) -> list[np.ndarray]:
        (standing,) = (x for x in ground.ROBOTS.values() if x.name == robot.partition(":")[0])
        q, v = ground.states(model, standing, STATES)
        tau = np.zeros((STATES, ground.STEPS, model.nv))
        return [q, v, tau, np.full(STATES, ground.DT)]


Sought = str | Variant | OnGround


class Wanted(NamedTuple):
    """Functions of a robot, each in these dtypes and by these mappings. form: see `Facts`."""

    robot: str
    functions: tuple[Sought, ...]
    dtypes: tuple[str, ...] = DTYPES
    mappings: tuple[str, ...] = ("lanes",)
    form: str = ""


class One(NamedTuple):
    """A function of a robot in a dtype by a mapping."""

    robot: str
    function: Sought
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
LAWS = OnGround("Coulomb"), OnGround("SoftContacts")
SUITE = (
    *(Wanted(robot, NAMES) for robot in ROBOTS),
    Wanted("iiwa14", DERIVATIVES, F32, ("team:2", "team:8")),
    Wanted("hyq:free", DERIVATIVES, F32, ("team:2", "team:4", "team:8")),
    Wanted("atlas:free", DERIVATIVES[:1], F32, ("team:2", "team:4", "team:8")),
    Wanted("g1:free", DERIVATIVES[:1], F32, ("team:2", "team:4", "team:8")),
    Wanted("g1:free", DERIVATIVES[1:], F32, ("team:8",)),
    *(Wanted(robot, (ROLLOUT,), F32) for robot in ROBOTS[:2]),
    *(Wanted(robot, LAWS, F32) for robot in ("go2:free", "hyq:free", "g1:free")),
    Wanted(CHAIN, (Variant("inverse_dynamics", method="serial"),), F32, ("links:1", "links:4")),
    Wanted(CHAIN, (Variant("forward_dynamics", method="aba"),), F32, ("links:1", "links:4")),
)
FEW = (Wanted("iiwa14", NAMES[:2], F32), Wanted("iiwa14", DERIVATIVES, F32, ("lanes", "team:2")))


def packed(model: Model, each: One) -> Packed:
    """A function of a robot: its kernels by a mapping, states, and the CPU's results."""
    made = kernels(model, each)
    wanted = each.function
    if isinstance(wanted, OnGround):
        function, given = wanted.function(model), wanted.inputs(model, each.robot)
    else:
        function = model._function(_variant(wanted))
        given = _inputs(model, function)
    inputs = [x.astype(each.dtype) for x in given]
    return Packed(made, inputs, as_tuple(function(*inputs)))


def kernels(model: Model, each: One) -> GpuKernels:
    """The kernels of a function of a robot by a mapping."""
    if isinstance(each.function, OnGround):
        on_gpu, name = each.function.function(model).gpu, "rollout"
    else:
        variant = _variant(each.function)
        name = SHORT.get(variant.name, variant.name)
        on_gpu = model._function(variant).gpu
        if each.mapping.startswith("links"):
            on_gpu = LongOnGPU(f"pack {model.name}", model, variant, each.mapping)
    assert on_gpu is not None
    return on_gpu.kernels(each.mapping, name, np.dtype(each.dtype))


def _variant(function: str | Variant) -> Variant:
    return function if isinstance(function, Variant) else Variant(function)


def _inputs(model: Model, function: Function) -> list[np.ndarray]:
    """Random states; steps of time are 1 ms."""
    rng = np.random.default_rng(0)

    def made(name: str, core: tuple[int, ...]) -> np.ndarray:
        if name == "q":
            return model.random_configuration(STATES, seed=rng)
        return (
            np.full((STATES, *core), 1e-3) if name == "dt" else rng.uniform(-1, 1, (STATES, *core))
        )

    return [made(*each) for each in function.inputs.items()]


def facts(number: int, each: One, function: Packed) -> Facts:
    """What the index says of a file."""
    told = _told(each.function)
    name = f"{number:03d}-{each.robot}-{told}-{each.dtype}-{each.mapping}"
    file = "".join(x if x.isalnum() or x == "-" else "_" for x in name)
    counts = function.row_bytes, function.scratch_bytes(), function.operations()
    work = function.kernels.work
    return Facts(
        f"{file}.zip", each.robot, told, each.dtype, each.mapping, each.form, *counts, work
    )


def _told(function: Sought) -> str:
    """A function with its options, for people."""
    if isinstance(function, str):
        return function
    if isinstance(function, OnGround):
        return f"rollout, {function.law}, {ground.STEPS} steps"
    steps = f"{function.steps} steps" if function.steps else ""
    return ", ".join(filter(None, (function.name, function.method, function.integrator, steps)))


def every(wanted: Iterable[Wanted]) -> Iterator[One]:
    """Each function, dtype and mapping alone."""
    for each in wanted:
        for function, dtype, mapping in product(each.functions, each.dtypes, each.mappings):
            yield One(each.robot, function, dtype, mapping, each.form)


def model_of(each: One) -> Model:
    """The robot of a function: on the ground the bundled one, whose feet are spheres."""
    if each.robot == CHAIN:
        return fl.chain(int(CHAIN.removeprefix("chain")), seed=1)
    name, _, root = each.robot.partition(":")
    if isinstance(each.function, OnGround):
        return fl.load(name, root=root)
    (robot,) = chosen([each.robot])
    return fl.load(str(robot.urdf), root=robot.root)


def write(folder: Path, wanted: Iterable[Wanted]) -> list[Facts]:
    """Writes a pack, and returns what its index says."""
    folder.mkdir(parents=True, exist_ok=True)
    models: dict[tuple[str, bool], Model] = {}
    listed: list[Facts] = []
    for number, each in enumerate(every(wanted)):
        key = each.robot, isinstance(each.function, OnGround)
        if key not in models:
            models[key] = model_of(each)
        function = packed(models[key], each)
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
