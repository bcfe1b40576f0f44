"""Functions with the signature of acados' generic external functions, around generated ones.

acados calls `int f(void **in, void **out, void *params)` for discrete dynamics with in[0], in[1] =
x, u and out[0] = the next x, all `struct blasfeo_dvec_args`, and out[1] = the transposed Jacobian,
rows by u and then x, a `struct blasfeo_dmat_args` (acados/ocp_nlp/ocp_nlp_dynamics_disc.c and
utils/external_function_generic.h). params are the parameters, an array of double.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

HEADER = """\
/* {name}: discrete dynamics for acados, around {name}.h. Not run inside acados itself.

   disc_dyn_fun: in = {{x, u}}, out = {{next x}}; disc_dyn_fun_jac: out[1] is [jac_u'; jac_x'].
   params: double p[], or NULL where a function has none.
{table} */
#ifndef {guard}
#define {guard}

#ifdef __cplusplus
extern "C" {{
#endif

{declared}

#ifdef __cplusplus
}}
#endif

#endif
"""
SOURCE = """\
/* See {name}_acados.h. Compile with the include paths of acados and BLASFEO. */
#include "{name}_acados.h"
#include "{name}.h"

#include "blasfeo_d_aux.h"
#include "acados/utils/external_function_generic.h"

static void fl_read(void *argument, int n, double *values) {{
  struct blasfeo_dvec_args *from = (struct blasfeo_dvec_args *)argument;
  for (int i = 0; i < n; i++) values[i] = BLASFEO_DVECEL(from->x, from->xi + i);
}}

static void fl_write(const double *values, int n, void *argument) {{
  struct blasfeo_dvec_args *to = (struct blasfeo_dvec_args *)argument;
  for (int i = 0; i < n; i++) BLASFEO_DVECEL(to->x, to->xi + i) = values[i];
}}

static void fl_write_matrix(const double *values, int rows, int columns, void *argument) {{
  struct blasfeo_dmat_args *to = (struct blasfeo_dmat_args *)argument;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      BLASFEO_DMATEL(to->A, to->ai + i, to->aj + j) = values[i * columns + j];
}}

{functions}
"""


class Dynamics(NamedTuple):
    """A function of the library, with functions NAME_fun and NAME_fun_jac, and its sizes."""

    name: str
    x: int
    u: int
    p: int
    fun: int


def files(name: str, functions: Sequence[Dynamics]) -> Mapping[str, str]:
    """The text of each file; name: the prefix of the library."""
    declared = [f"int {_called(name, f, jac)};" for f in functions for jac in (False, True)]
    table = "".join(f"   {f.name}: x[{f.x}], u[{f.u}], p[{f.p}], fun[{f.fun}]\n" for f in functions)
    guard = f"{name}_ACADOS_H".upper()
    head = HEADER.format(name=name, guard=guard, declared="\n".join(declared), table=table)
    bodies = [_function(name, f, jac) for f in functions for jac in (False, True)]
    source = SOURCE.format(name=name, functions="\n\n".join(bodies))
    return {f"{name}_acados.h": head, f"{name}_acados.c": source}


def _called(name: str, f: Dynamics, jac: bool) -> str:
    kind = "disc_dyn_fun_jac" if jac else "disc_dyn_fun"
    return f"{name}_{f.name}_{kind}(void **in, void **out, void *params)"


def _function(name: str, f: Dynamics, jac: bool) -> str:
    wrapped, rows = f"{name}_{f.name}_{'fun_jac' if jac else 'fun'}", f.u + f.x
    vectors = [(k, n) for k, n in (("x", f.x), ("u", f.u)) if n]
    jacobian = jac and rows > 0
    local = [f"{k}[{n}]" for k, n in [*vectors, ("fun", f.fun)]]
    local += [f"jac[{rows * f.fun}]"] if jacobian else []
    arguments = [k for k, _ in vectors] + (["(const double *)params"] if f.p else [])
    results = ["fun", *(["jac"] if jacobian else [])]
    unused = [] if f.p else ["(void)params;"]
    body = [
        *unused,
        f"double {', '.join(local)}, work[{wrapped.upper()}_WORK + 1];",
        *[f"fl_read(in[{'xu'.index(k)}], {n}, {k});" for k, n in vectors],
        f"{wrapped}({', '.join([*arguments, *results, 'work'])});",
        f"fl_write(fun, {f.fun}, out[0]);",
        *([f"fl_write_matrix(jac, {rows}, {f.fun}, out[1]);"] if jacobian else []),
        "return 0;",
    ]
    lines = "\n".join(f"  {line}" for line in body)
    return f"int {_called(name, f, jac)} {{\n{lines}\n}}"
