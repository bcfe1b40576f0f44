"""Columns of the chain rule through the stages of steps, in float64 and in the array's numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from chain_circuit import BASE, OF_STAGE, chain_datapath, stage_column
from chain_rule import piece
from circuit import INPUTS, SAMPLES, VARIANT, sampled
from dynamics_featherlane import Featherlane
from robot import FEET, Quadruped
from stage_circuit import DT

from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, floats, quantised
from featherlane.functions.table import Variant

UNIT = 16.0  # N m and N in which the array has columns of controls, so that they use its bits
PARTS = 1 / 2, 1 / 2, 1.0, 1 / 6  # of a step, to the next stage; of the last one, its share
SHARES = 1 / 6, 1 / 3, 1 / 3, 1 / 6
Given = Mapping[str, np.ndarray]
Column = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


class Stage(NamedTuple):
    """Of states: derivatives of the acceleration, by controls (joint torques and forces of the
    feet), too; and the maps by which changes move to the next stage, (states, 6, 6).
    """

    da_dq: np.ndarray
    da_dv: np.ndarray
    da_du: np.ndarray
    by_q: np.ndarray
    by_u: np.ndarray
    rate_by_u: np.ndarray
    rate_by_v: np.ndarray


def stages_of(robot: Quadruped, given: Given, dt: float) -> list[Stage]:
    """The four stages of steps. given: q, v, tau and f_ext, as of `circuit.sampled`."""
    model, step = robot.model, np.array(dt)
    method = INTEGRATORS["rk4"]
    function = lambda name, row: piece(model, Variant(name, tableau=method.combination(row)))
    dynamics, maps = piece(model, VARIANT), function("stage_maps", ())
    to_stage = [function("to_stage", row) for row in method.a]
    q, v, tau, f_ext = (np.asarray(given[name]) for name in INPUTS)
    at, rates, accelerations, found = (q, v), [v], list[np.ndarray](), list[Stage]()
    for k in range(len(PARTS)):
        a, *slopes = dynamics(*at, tau, f_ext)
        accelerations.append(a)
        controls = np.concatenate([slopes[2][..., BASE:], _by_forces(robot, at[0], slopes[2])], 2)
        if k < len(to_stage):
            *at, u, rate = to_stage[k](q, v, rates[k], a, step)
            rates.append(rate)
        else:
            end = function("advance", method.b)
            *at, u = end(q, v, *rates, *accelerations, step)
        moves = [x.reshape(-1, BASE, BASE) for x in maps(u, at[1])]
        found.append(Stage(*slopes[:2], controls, *moves))
    return found


def _by_forces(robot: Quadruped, q: np.ndarray, minv: np.ndarray) -> np.ndarray:
    """The derivatives of accelerations by forces at the feet, in the world's axes."""
    rows = [robot.model.jacobian(q, foot, "world")[..., :3, :] for foot in FEET]
    return minv @ np.concatenate(rows, -2).swapaxes(-1, -2)


def walked(
    stages: Sequence[Stage], dt: float, states: np.ndarray, columns: np.ndarray, column: Column
) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """The inputs of the array for some columns, stage by stage, and the columns of A and B at the
    end. states, columns: the number of each one's state, and of it among q, v and controls.
    """
    n, controls = stages[0].da_dq.shape[1], stages[0].da_du.shape[2]
    unit = np.eye(2 * n, 2 * n + controls).T[columns]
    still = np.zeros((len(columns), n))
    own = {"Dq": unit[:, :n], "Dv": unit[:, n:], "Dr": unit[:, n:], "sum_v": still, "sum_r": still}
    given = list[dict[str, np.ndarray]]()
    for k, stage in enumerate(stages):
        of = Stage(*(x[states] for x in stage))
        by_u = np.concatenate([np.zeros((len(columns), n, 2 * n)), UNIT * of.da_du], 2)
        moved = unit.copy()
        moved[:, :BASE] = np.einsum("kij,kj->ki", of.by_q, unit[:, :BASE])
        end = k == len(stages) - 1
        matrices = of.da_dq, of.da_dv, of.by_u, of.rate_by_u, of.rate_by_v
        times = (np.full(len(columns), dt * x[k]) for x in (PARTS, SHARES))
        given.append(
            {
                **dict(zip(OF_STAGE, (*matrices, *times), strict=True)),
                **own,
                "da_du": by_u[np.arange(len(columns)), :, columns],
                "unit": moved,
                "end_v": own["sum_v"] * end,
                "end_r": own["sum_r"] * end,
            }
        )
        own = column(given[-1])
    found = np.concatenate([own["Dq"], own["Dv"]], 1)
    return given, np.where((columns < 2 * n)[:, None], found, found / UNIT)


def exactly(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A column of a stage in float64."""
    entries = {name: np.moveaxis(x, 0, -1) for name, x in given.items()}
    return {name: np.stack(x, -1) for name, x in stage_column(**entries).items()}


def in_numbers_of(datapath: Datapath) -> Column:
    """A column of a stage in the numbers of the array, to the bit."""
    evaluator = Evaluator(datapath)
    return lambda given: floats(datapath, evaluator(quantised(datapath, given)[0]).integers)


def fitted_array(robot: Quadruped) -> Datapath:
    """The array in formats fitted to states with the speeds and accelerations of closed loops: a
    random column of each, in a random stage.
    """
    rng = np.random.default_rng(0)
    stages = stages_of(robot, sampled(robot, SAMPLES, 0), DT)
    count = 2 * robot.model.nv + stages[0].da_du.shape[2]
    columns, which = rng.integers(0, count, SAMPLES), rng.integers(0, len(PARTS), SAMPLES)
    given, _ = walked(stages, DT, np.arange(SAMPLES), columns, exactly)
    picked: dict[str, Any] = {}
    for name, first in given[0].items():
        picked[name] = np.empty_like(first)
        for k, own in enumerate(given):
            picked[name][which == k] = own[name][which == k]
    return chain_datapath(robot.model.nv, picked)


class ArrayNumbers(Featherlane):
    """A and B with the numbers of the array, to the bit; next states, and the matrices that the
    array is given, of float64. The step is that of the array's formats, `DT`.
    """

    def __init__(self, robot: Quadruped, knots: int) -> None:
        super().__init__(robot, knots, 1)
        self.robot, self.column = robot, in_numbers_of(fitted_array(robot))
        self.name = "array"

    def linearise(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]:
        *state, A, B = super().linearise(q, v, u, f, dt)
        f_ext = np.zeros((*f.shape[:2], 6))
        f_ext[..., :3] = f
        tau = np.pad(u, ((0, 0), (BASE, 0)))
        stages = stages_of(self.robot, dict(zip(INPUTS, (q, v, tau, f_ext), strict=True)), dt)
        knots, count, wide = len(q), A.shape[2] + B.shape[2], A.shape[2]
        numbers = np.divmod(np.arange(knots * count), count)
        found = walked(stages, dt, *numbers, self.column)[1]
        whole = found.reshape(knots, count, wide).swapaxes(1, 2)
        return *state, whole[..., :wide].copy(), whole[..., wide:].copy()
