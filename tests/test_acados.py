"""Generated functions with acados' signature, called with vectors made by hand. acados itself, and
BLASFEO, are not here: the test has headers of its own with their names, and panels like BLASFEO's.
"""

import shutil
import subprocess

import numpy as np
import pytest

import featherlane as fl
from featherlane.functions.discrete import groups
from featherlane.tools.cli import main

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

BLASFEO = """\
struct blasfeo_dvec { double *pa; };
struct blasfeo_dmat { double *pA; int cn; };
#define PS 4
#define BLASFEO_DVECEL(sx, i) ((sx)->pa[i])
#define BLASFEO_DMATEL(sA, i, j) \\
  ((sA)->pA[((i) - ((i) & (PS - 1))) * (sA)->cn + (j) * PS + ((i) & (PS - 1))])
"""
ACADOS = """\
struct blasfeo_dmat_args { struct blasfeo_dmat *A; int ai; int aj; };
struct blasfeo_dvec_args { struct blasfeo_dvec *x; int xi; };
"""
PROGRAM = """\
#include <stdio.h>
#include "blasfeo_d_aux.h"
#include "acados/utils/external_function_generic.h"
#include "%(name)s_acados.h"

int main(void) {
  double ux[] = {%(ux)s}, p[] = {%(p)s, 0}, fun[100], jac[10000];
  for (int i = 0; i < 10000; i++) jac[i] = fun[i %% 100] = -77.0;
  struct blasfeo_dvec given = {ux}, next = {fun};
  struct blasfeo_dmat matrix = {jac, 50};
  struct blasfeo_dvec_args x = {&given, %(nu)d}, u = {&given, 0}, out = {&next, 3};
  struct blasfeo_dmat_args rows = {&matrix, 2, 5};
  void *ins[] = {&x, &u}, *outs[] = {&out, &rows};
  if (%(call)s(ins, outs, p)) return 1;
  for (int i = 0; i < %(nf)d + 4; i++) printf("%%.17g ", fun[i]);
  for (int i = 0; i < %(nu)d + %(nx)d + 3; i++)
    for (int j = 0; j < %(nf)d + 6; j++) printf("%%.17g ", BLASFEO_DMATEL(&matrix, i, j));
  return 0;
}
"""


def called(folder, name, function, x, u, p, outputs):
    """What a function wrote into the vector from entry 3 and into the matrix from (2, 5) on."""
    (folder / "acados" / "utils").mkdir(parents=True, exist_ok=True)
    (folder / "blasfeo_d_aux.h").write_text(BLASFEO)
    (folder / "acados" / "utils" / "external_function_generic.h").write_text(ACADOS)
    listed = lambda numbers: ", ".join(map(repr, map(float, numbers)))
    sizes = {"nx": len(x), "nu": len(u), "nf": outputs}
    texts = {"name": name, "call": function, "ux": listed([*u, *x]), "p": listed(p) or "0"}
    text = PROGRAM % {**texts, **sizes}
    (folder / "main.c").write_text(text)
    flags = ["-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-I", "."]
    files = ["main.c", f"{name}.c", f"{name}_acados.c"]
    subprocess.run(["gcc", *flags, *files, "-lm", "-o", "call"], cwd=folder, check=True)
    run = subprocess.run([folder / "call"], capture_output=True, text=True, check=True)
    numbers = np.array(run.stdout.split(), float)
    vector, matrix = numbers[: outputs + 4], numbers[outputs + 4 :].reshape(-1, outputs + 6)
    assert np.all(vector[:3] == -77)
    assert vector[-1] == -77  # nothing beside the result is written
    inside = np.zeros(matrix.shape, bool)
    inside[2:-1, 5:-1] = True
    assert np.all(matrix[~inside] == -77)
    return vector[3:-1], matrix[2:-1, 5:-1]


def test_a_step_with_its_jacobian(tmp_path):
    """A step of semi-implicit Euler, traced here, with the time step as a parameter."""
    model = fl.load("double_pendulum")
    graph = model.graph("forward_dynamics")

    def step(q, v, tau, dt):
        a = fl.call(graph, q=q, v=v, tau=tau)["a"]
        new = [x + dt * y for x, y in zip(v, a, strict=True)]
        return {"q": [x + dt * y for x, y in zip(q, new, strict=True)], "v": new}

    traced = fl.trace(step, {"q": 2, "v": 2, "tau": 2, "dt": ()})
    assert groups(traced) == (("q", "v"), ("tau",), ("dt",))
    files = fl.generate(model, tmp_path, {"step": traced}, name="arm", signature="acados")
    names = ["arm.h", "arm.c", "arm_check.c", "CMakeLists.txt", "arm_acados.h", "arm_acados.c"]
    assert [file.name for file in files] == names
    assert "Not run inside acados" in files[4].read_text()
    x, u, dt = [0.3, -0.2, 1.0, 0.5], [0.1, 0.2], 0.01
    fun, jac = called(tmp_path, "arm", "arm_step_disc_dyn_fun_jac", x, u, [dt], 4)
    run = lambda x, u: np.concatenate(fl.compile(traced)(x[:2], x[2:], u, dt))
    assert np.array_equal(fun, run(np.array(x), np.array(u)))
    a = model.forward_dynamics_derivatives(x[:2], x[2:], u)
    one, dv_dq, dv_dv, dv_du = np.eye(2), dt * a.da_dq, np.eye(2) + dt * a.da_dv, dt * a.da_dtau
    A = np.block([[one + dt * dv_dq, dt * dv_dv], [dv_dq, dv_dv]])
    B = np.vstack([dt * dv_du, dv_du])
    assert np.allclose(jac, np.vstack([B.T, A.T]), rtol=1e-12, atol=1e-14)
    alone, none = called(tmp_path, "arm", "arm_step_disc_dyn_fun", x, u, [dt], 4)
    assert np.array_equal(alone, fun)
    assert np.all(none == -77)
    flags = ["-std=c99", "-ffp-contract=off", "-Werror", "arm.c", "arm_check.c", "-lm", "-o", "ok"]
    subprocess.run(["gcc", *flags], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "ok"], check=True, stdout=subprocess.DEVNULL)


def test_a_step_of_a_model_by_name(tmp_path, capsys):
    out = str(tmp_path)
    args = ["double_pendulum", "--output", out, "--function", "step:rk4", "--name", "arm"]
    assert main(["generate", *args, "--signature", "acados"]) == 0
    assert "arm_acados.c" in capsys.readouterr().out
    x, u, dt = [0.3, -0.2, 1.0, 0.5], [0.1, 0.2], 0.01
    fun, jac = called(tmp_path, "arm", "arm_step_rk4_disc_dyn_fun_jac", x, u, [dt], 4)
    model = fl.load("double_pendulum")
    linear = model.linearize_step(x[:2], x[2:], u, dt, integrator="rk4")
    assert np.allclose(fun, [*linear.q, *linear.v], rtol=1e-13, atol=0)
    assert np.allclose(jac, np.vstack([linear.B.T, linear.A.T]), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("function", ["mass_matrix", "linearize_step", "forward_dynamics"])
def test_functions_that_give_no_next_state(function, tmp_path):
    model = fl.load("double_pendulum")
    wanted = "acados takes discrete dynamics, 'step' or a graph whose outputs are the next state"
    for named in ([function], {"f": model.graph(function)}):
        with pytest.raises(ValueError, match=wanted):
            fl.generate(model, tmp_path, named, signature="acados")
    assert not list(tmp_path.iterdir())


def test_what_is_refused(tmp_path):
    model = fl.load("double_pendulum")
    with pytest.raises(ValueError, match="signature is 'ocp': wanted 'plain' or 'acados'"):
        fl.generate(model, tmp_path, ["mass_matrix"], signature="ocp")
    with pytest.raises(ValueError, match="dtype is float32: acados computes with float64"):
        fl.generate(model, tmp_path, ["step"], dtype=np.float32, signature="acados")
