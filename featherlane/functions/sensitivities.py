"""How stages of a step change with its beginning and controls, as work on matrices: what the
functions of the same names in `algorithms/integrators.py` compute column by column, for robots
whose columns would not fit into the caches a tile of states at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from featherlane.functions.pieces import EVERY
from featherlane.functions.steps import Call
from featherlane.functions.table import Variant
from featherlane.program.plan import (
    CopyRows,
    Diagonal,
    KernelRun,
    MatrixBlock,
    MatrixWork,
    Multiply,
    Scale,
    Shape,
    Use,
)
from featherlane.robot.model import Robot

LANES = 16  # a multiple of the lanes of all vectors
SIXTH = 1 / 6
KUTTA = (SIXTH, 2 * SIXTH, 2 * SIXTH, SIXTH)


Steps = tuple[list[KernelRun], list[MatrixWork]]
Moved = tuple[str, float, int]  # a matrix, a factor and a power of dt


class MatrixSteps:
    """Makes the steps of a plan for calls whose results are matrices of sensitivities, with columns
    [q, v, controls]. kernel: gives the number of a piece's kernel.
    """

    def __init__(
        self, model: Robot, controls: int, temporaries: dict[str, Shape], kernel: Callable[..., int]
    ) -> None:
        self.scratch: dict[str, Shape] = {}
        self.n, self.controls = model.nv, controls
        used = 2 * self.n + controls
        self.columns = -(-used // LANES) * LANES  # whole vectors; what is beyond `used` is zero
        self.beyond = self.columns - used
        self.temporaries, self.kernel = temporaries, kernel
        own = [(model.types[i], model.first_v[i]) for i in model.independent]
        self.curved = [(kind.nv, k) for kind, k in own if kind.commutator is not None]
        self.made = 0

    def steps(self, call: Call) -> Steps | None:
        """The kernels and the work of a call; None if a kernel does all of it."""
        forms = {
            "first_half_sensitivities": self._first,
            "half_sensitivities": lambda x: self._next(x, 0.5),
            "full_sensitivities": lambda x: self._next(x, 1.0),
            "linear_euler": lambda x: self._euler(x, False),
            "linear_semi_implicit": lambda x: self._euler(x, True),
            "linear_midpoint": self._midpoint,
            "linear_runge_kutta": self._runge_kutta,
        }
        form = forms.get(call.variant.name)
        return None if form is None else form({**call.inputs, **call.outputs})

    # Parts of matrices

    def _all(self, array: str, row: int = 0, column: int = 0) -> MatrixBlock:
        """A part of a matrix with all columns."""
        return MatrixBlock(array, row * self.columns + column, self.columns)

    def _square(self, array: str) -> MatrixBlock:
        return MatrixBlock(array, 0, self.n)

    def _controls(self, array: str) -> MatrixBlock:
        return MatrixBlock(array, 0, self.controls)

    def _matrix(self, name: str, rows: int = 0) -> str:
        """A new temporary matrix with all columns."""
        self.made += 1
        self.scratch[f"{name}.{self.made}"] = (rows or self.n, self.columns)
        return f"{name}.{self.made}"

    # Work

    def _whole(
        self, array: str, terms: list[tuple[str, float, int]], column: int, row: int = 0
    ) -> list[MatrixWork]:
        """A matrix as a sum of others with factors, and 1 on the diagonal from a column on."""
        work: list[MatrixWork] = []
        for k, (source, factor, power) in enumerate(terms):
            sizes = self.n, self.columns, factor, power
            work.append(Scale(self._all(array, row), self._all(source), *sizes, more=k > 0))
        return [*work, Diagonal(self._all(array, row, column), self.n)]

    def _beside(
        self, array: str, x: dict[str, str], row: int = 0, power: int = 0
    ) -> list[MatrixWork]:
        """A matrix from its blocks by q, v and controls, times a power of dt."""
        n, scale = self.n, (1.0, power)
        at = [self._all(array, row, column) for column in (0, n, 2 * n)]
        return [
            Scale(at[0], self._square(x["da_dq"]), n, n, *scale),
            Scale(at[1], self._square(x["da_dv"]), n, n, *scale),
            Scale(at[2], self._controls(x["da_du"]), n, self.controls, *scale),
            Scale(self._all(array, row, self.columns - self.beyond), None, n, self.beyond),
        ]

    def _accelerated(self, array: str, x: dict[str, str], Dq: str, Dv: str) -> list[MatrixWork]:
        """da = da/dq dq + da/dv dv + da/du."""
        n, m = self.n, self.columns
        u = self._all(array, 0, 2 * n)
        return [
            Scale(self._all(array), None, n, m),
            Multiply(self._all(array), self._square(x["da_dq"]), self._all(Dq), n, n, m),
            Multiply(self._all(array), self._square(x["da_dv"]), self._all(Dv), n, n, m),
            Scale(u, self._controls(x["da_du"]), n, self.controls, more=True),
        ]

    def _maps(self, u: str, v: str) -> tuple[list[KernelRun], dict[str, str]]:
        """A kernel for the maps of curved joints along a motion u: their arrays by name."""
        if not self.curved:
            return [], {}
        self.made += 1
        variant = Variant("motion_maps")
        size = sum(c * c for c, _ in self.curved)
        arrays = {name: f"{name}.{self.made}" for name in EVERY["motion_maps"].outputs}
        self.temporaries |= dict.fromkeys(arrays.values(), (size,))
        return [KernelRun(self.kernel(variant), tuple(map(Use, (u, v, *arrays.values()))))], arrays

    def _blocks(self, array: str) -> Iterator[tuple[MatrixBlock, int, int]]:
        """Yields the map of each curved joint, the joint's size and its first entry of v."""
        at = 0
        for size, k in self.curved:
            yield MatrixBlock(array, at, size), size, k
            at += size * size

    def _moved(self, Dq: str, Du: Moved, maps: dict[str, str], first: int = 0) -> list[MatrixWork]:
        """Dq: how a configuration changes that a motion u leads to, if Du (a matrix, from row
        `first` on, a factor and a power of dt) is how u changes.
        """
        source, factor, power = Du
        n, m, target = self.n, self.columns, self._all(Dq)
        work: list[MatrixWork] = [Scale(target, self._all(source, first), n, m, factor, power)]
        work.append(Diagonal(target, n))
        if not self.curved:
            return work
        scratch = self._matrix("moved")
        for block, size, k in self._blocks(maps["moved_by_u"]):
            own = self._all(scratch, k)
            work += [
                Scale(own, None, size, m),
                Multiply(own, block, self._all(source, first + k), size, size, m),
                Scale(self._all(Dq, k), own, size, m, factor, power),
            ]
        for block, size, k in self._blocks(maps["moved_by_q"]):
            work.append(Scale(self._all(Dq, k, k), block, size, size, more=True))
        return work

    def _rates(self, Dr: str, Dv: str, Du: Moved, maps: dict[str, str]) -> list[MatrixWork]:
        """Dr: how the rate at a stage changes."""
        n, m, (source, factor, power) = self.n, self.columns, Du
        work: list[MatrixWork] = [Scale(self._all(Dr), self._all(Dv), n, m)]
        if not self.curved:
            return work
        scratch = self._matrix("rate")
        for block, size, k in self._blocks(maps["rate_by_u"]):
            own = self._all(scratch, k)
            work += [
                Scale(own, None, size, m),
                Multiply(own, block, self._all(source, k), size, size, m),
                Scale(self._all(Dr, k), own, size, m, factor, power),
            ]
        for block, size, k in self._blocks(maps["rate_by_v"]):
            work.append(Multiply(self._all(Dr, k), block, self._all(Dv, k), size, size, m))
        return work

    # The functions

    def _base(self) -> tuple[str, list[MatrixWork]]:
        """How v at the beginning changes, [0 1 0]."""
        base = self._matrix("base")
        zeros = Scale(self._all(base), None, self.n, self.columns)
        return base, [zeros, Diagonal(self._all(base, 0, self.n), self.n)]

    def _first(self, x: dict[str, str]) -> Steps:
        (base, work), Da = self._base(), self._matrix("Da")
        run, maps = self._maps(x["u"], x["v_stage"])
        h = base, 0.5, 1
        work += [*self._beside(Da, x), *self._whole(x["Dv"], [(Da, 0.5, 1)], self.n)]
        work += [*self._moved(x["Dq"], h, maps), *self._rates(x["Dr"], x["Dv"], h, maps)]
        return run, work

    def _next(self, x: dict[str, str], fraction: float) -> Steps:
        run, maps = self._maps(x["u"], x["v_stage"])
        h = x["Dr"], fraction, 1
        work = self._accelerated(x["Da"], x, x["Dq"], x["Dv"])
        work += self._whole(x["Dv_next"], [(x["Da"], fraction, 1)], self.n)
        work += self._moved(x["Dq_next"], h, maps)
        work += self._rates(x["Dr_next"], x["Dv_next"], h, maps)
        return run, work

    def _end(
        self,
        x: dict[str, str],
        D: str,
        work: list[MatrixWork],
        moved: Moved,
        end: tuple[list[KernelRun], str],
    ) -> Steps:
        """The end of a step: A and B from D, whose lower half, how v changes, `work` makes. moved:
        how the motion changes, as `_moved` takes it.
        """
        runs, u = end
        run, maps = self._maps(u, u)
        first = self.n if moved[0] == D else 0
        work = [*work, *self._moved(D, moved, maps, first)]
        A, B = CopyRows(self._all(D), x["A"]), CopyRows(self._all(D, 0, 2 * self.n), x["B"])
        return [*runs, *run], [*work, A, B]

    def _state(self, name: str, *inputs: str) -> tuple[list[KernelRun], str]:
        """The kernel that ends a step, and its motion."""
        u = f"motion.{self.made}"
        self.temporaries[u] = (self.n,)
        uses = tuple(map(Use, (*inputs, "q_next", "v_next", u)))
        return [KernelRun(self.kernel(Variant(name)), uses)], u

    def _euler(self, x: dict[str, str], semi_implicit: bool) -> Steps:
        name = "advance_semi_implicitly" if semi_implicit else "advance"
        rate = () if semi_implicit else (x["v"],)
        end = self._state(name, x["q"], *rate, x["v"], x["a"], x["dt"])
        D, n = self._matrix("D", 2 * self.n), self.n
        work = [*self._beside(D, x, n, 1), Diagonal(self._all(D, n, n), n)]
        source = D
        if not semi_implicit:
            source, base = self._base()
            work += base
        return self._end(x, D, work, (source, 1.0, 1), end)

    def _midpoint(self, x: dict[str, str]) -> Steps:
        end = self._state("advance", x["q"], x["v_middle"], x["v"], x["a"], x["dt"])
        D, Da = self._matrix("D", 2 * self.n), self._matrix("Da")
        work = self._accelerated(Da, x, x["Dq"], x["Dv"])
        work += self._whole(D, [(Da, 1.0, 1)], self.n, self.n)
        return self._end(x, D, work, (x["Dv"], 1.0, 1), end)

    def _runge_kutta(self, x: dict[str, str]) -> Steps:
        end = self._state("runge_kutta", *[x[name] for name in EVERY["runge_kutta"].inputs])
        base, work = self._base()
        D, (Da1, Da4, Du) = self._matrix("D", 2 * self.n), map(self._matrix, ("Da1", "Da4", "Du"))
        last = {name: x[f"last_{name}"] for name in ("da_dq", "da_dv", "da_du")}
        work += self._beside(Da1, x)
        work += self._accelerated(Da4, last, x["Dq4"], x["Dv4"])
        stages = zip((Da1, x["Da2"], x["Da3"], Da4), KUTTA, strict=True)
        work += self._whole(D, [(Da, factor, 1) for Da, factor in stages], self.n, self.n)
        rates = zip((base, x["Dr2"], x["Dr3"], x["Dr4"]), KUTTA, strict=True)
        for k, (Dr, factor) in enumerate(rates):
            sizes = self.n, self.columns, factor, 1
            work.append(Scale(self._all(Du), self._all(Dr), *sizes, more=k > 0))
        return self._end(x, D, work, (Du, 1.0, 0), end)
