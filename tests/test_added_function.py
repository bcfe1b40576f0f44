"""A function of robots is added in three files: its algorithm, a row of the table and a method. It
is then compiled for one state and many, interpreted, traced by users, and written in C.
"""

from edited_package import edited, run
from test_c import HOSTS, checked

ALGORITHM = '''"""The rate of the kinetic energy."""

from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.terms import gravity_torque
from featherlane.robot.spatial import dot


def kinetic_energy_rate(model, q, qd, qdd):
    """Returns dT/dt = v^T (M a + C v), W."""
    g = gravity_torque(model, q)
    return dot(qd, [x - y for x, y in zip(rnea(model, q, qd, qdd), g, strict=True)])
'''
IMPORT = "from featherlane.algorithms import parallel\n"
ROW = '        "potential_energy": '
METHOD = "    def potential_energy("
EDITS = {
    "algorithms/power.py": ALGORITHM,
    "functions/table.py": [
        (IMPORT, IMPORT + "from featherlane.algorithms.power import kinetic_energy_rate\n"),
        (
            ROW,
            '        "kinetic_energy_rate": of_robot(QVA, {"dT_dt": ()}, kinetic_energy_rate),\n'
            + ROW,
        ),
    ],
    "api/kinematics.py": [
        (
            METHOD,
            "    def kinetic_energy_rate(self, q, v, a, params=None, out=None, threads=None):\n"
            '        return self._call("kinetic_energy_rate", (q, v, a), params, out, threads)\n\n'
            + METHOD,
        )
    ],
}
SCRIPT = """
import numpy as np
import featherlane as fl
from featherlane.backends import reference
from featherlane.functions.tracing import dynamics_program
from featherlane.functions.table import Variant
from featherlane.program.lower import lower

model, name = fl.random_tree(4, seed=1), "kinetic_energy_rate"
rng = np.random.default_rng(0)
q = model.random_configuration(50, seed=1)
v, a = rng.normal(size=(2, 50, model.nv))
wanted = np.sum(v * (model.inverse_dynamics(q, v, a) - model.gravity_torque(q)), -1)
rates = model.kinetic_energy_rate(q, v, a)
assert np.abs(rates - wanted).max() < 1e-10 * np.abs(wanted).max()
assert model.kinetic_energy_rate(q[3], v[3], a[3]) == rates[3]
step = 1e-6
ahead, behind = (model.kinetic_energy(model.integrate(q, s * v), v + s * a) for s in (step, -step))
assert np.abs((ahead - behind) / (2 * step) - rates).max() < 1e-6 * np.abs(rates).max()
program = lower(dynamics_program(model, Variant(name)), "cpu", np.float64)
(interpreted,) = reference.evaluate(program, {"q": q, "v": v, "a": a}, np.float64).values()
assert (interpreted == rates).all()
traced = fl.compile(lambda v: 2 * fl.call(model, name, q[0], v, a[0]), {"v": model.nv})
assert np.isclose(traced(v[0]), 2 * rates[0])
assert model.compile([name])[name] >= 0
fl.generate(model, "written", [name], name="power")
"""


def test_a_function_is_added_in_three_files(tmp_path):
    assert len(EDITS) == 3
    run(edited(tmp_path, EDITS), SCRIPT)
    files = [*(tmp_path / "written").iterdir()]
    assert " ok" in checked(HOSTS[1], tmp_path / "written", files, "-O0")
