"""The program that checks generated functions against values that the interpreter computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featherlane.backends import reference
from featherlane.backends.c.arithmetic import CType
from featherlane.backends.c.written import Written, work_constant

TOP = """\
/* Compares every function of {name}.h with values from Python; the exit status is 1 if one differs.
 *
 * The same bits are wanted, unless the compiler fuses products and sums, or FEATHERLANE_FMA is 0:
 * then results may differ by {loose} of the largest number of their array. */
#include "{name}.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {{ STATES = {states} }};

/* Whether each product and each sum is rounded on its own, in this type. */
static int unfused(void) {{
#if (defined(FEATHERLANE_FMA) && FEATHERLANE_FMA == 0) || \\
    (defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0)
  return 0;
#else
  const volatile {T} number = 1 + {EPSILON};
  const {T} x = number;
  const volatile {T} rounded = x * x;
  return x * x - rounded == 0;
#endif
}}

static {T} worst;

/* How many of some numbers are wrong. */
static int wrong(const {T} *given, const {T} *wanted, size_t count) {{
  {T} largest = 0;
  int n = 0;
  const int exact = unfused();
  for (size_t i = 0; i < count; ++i) largest = fmax{f}(largest, fabs{f}(wanted[i]));
  for (size_t i = 0; i < count; ++i) {{
    const int same = !memcmp(given + i, wanted + i, sizeof *given);
    const int both_nan = given[i] != given[i] && wanted[i] != wanted[i];
    const {T} apart = given[i] == wanted[i] || both_nan ? 0 : fabs{f}(given[i] - wanted[i]);
    const {T} difference = apart != 0 ? apart / largest : 0;
    if (!(difference <= worst)) worst = difference;
    n += exact ? !same && !both_nan : !(difference <= {tolerance});
  }}
  return n;
}}

static int report(const char *function, int n) {{
  printf("%-50s %s", function, n ? "DIFFERENT" : "ok");
  if (n) printf(": %d numbers", n);
  if (n || !unfused()) printf(", largest difference %.1e", (double)worst);
  printf("\\n");
  worst = 0;
  return n != 0;
}}
"""


def program(name: str, written: Sequence[Written], t: CType, dtype: np.dtype, lanes: int) -> str:
    """The text of the program. lanes: states of a tile."""
    states = max((len(x) for each in written for x in each.function.inputs.values()), default=1)
    fills = {
        "T": t.name,
        "f": t.suffix,
        "EPSILON": "DBL_EPSILON" if t.bits == 64 else "FLT_EPSILON",
    }
    loose = 1e-9 if t.bits == 64 else 1e-2
    tolerance = t.number(loose)
    parts = [TOP.format(name=name, states=states, loose=loose, tolerance=tolerance, **fills)]
    tests: list[str] = []
    for n, each in enumerate(written, 1):
        parts.append(_values(each, t, dtype, n, states))
        for suffix in each.forms:
            tests.append(f"check_{n}{suffix}")
            parts.append(
                _batch(name, each, t, n, 2 * lanes + 3) if suffix else _single(name, each, t, n)
            )
    calls = "".join(f"  failures += {test}();\n" for test in tests)
    text = 'printf("%s\\n", failures ? "FAILED" : "all functions agree");'
    note = 'if (!unfused()) printf("products and sums are fused, or not rounded: see above\\n");'
    parts.append(
        f"int main(void) {{\n  int failures = 0;\n{calls}  {note}\n  {text}\n"
        "  return failures != 0;\n}\n"
    )
    return "\n".join(parts)


def _arrays(each: Written) -> list[tuple[str, int]]:
    """The C names of the arguments, and their sizes, at least 1: C has no arrays of size 0."""
    return [(name, max(size, 1)) for name, size in each.sizes.items()]


def _members(arrays: Sequence[tuple[str, int]], t: CType, size: str) -> list[str]:
    """The arrays as a structure, so that they may have any names. size: a text with {} for
    entries.
    """
    return [
        "struct {",
        *[f"  {t.name} {x}{size.format(entries)};" for x, entries in arrays],
        "}",
    ]


def _values(each: Written, t: CType, dtype: np.dtype, n: int, states: int) -> str:
    """The inputs and the expected outputs, as constants of the program."""
    f = each.function
    inputs = {x: np.asarray(f.inputs[x], dtype) for x in f.program.inputs}
    with np.errstate(all="ignore"):  # infinities are values like others
        outputs = reference.evaluate(f.program, inputs, dtype)
    shapes = [*f.program.inputs.values(), *[out.shape for out in f.program.outputs.values()]]
    arrays = [*inputs.values(), *[outputs[x] for x in f.program.outputs]]
    members = _members(_arrays(each), t, "[STATES][{}]")
    lines = [f"static const {members[0]}", *members[1:-1], f"}} values_{n} = {{"]
    for array, shape in zip(arrays, shapes, strict=True):
        lines.append("  {")
        for state in np.broadcast_to(array, (states, *shape)).reshape(states, -1):
            numbers = ", ".join(t.hexadecimal(float(x)) for x in state) or "0"
            lines.append(f"    {{{numbers}}},")
        lines.append("  },")
    return "\n".join([*lines, "};"]) + "\n"


def _buffers(each: Written, name: str, t: CType, states: int = 0) -> list[str]:
    """Buffers for the results, the workspace and, for many states, the inputs. states: 0 for the
    function of one state.
    """
    arrays = _arrays(each)
    many, suffix = (f" * {states}", "_batch") if states else ("", "")
    inputs, outputs = arrays[: len(each.function.program.inputs)], each.renamed.values()
    lines = [f"static {t.name} work[{work_constant(name, each, suffix)} + 1];"]
    buffers = [([a for a in arrays if a[0] in outputs], "out")]
    buffers += [(inputs, "in")] if suffix and inputs else []
    for members, variable in buffers:
        first, *rest = _members(members, t, f"[{{}}{many}]")
        lines += [f"static {first}", *rest[:-1], f"}} {variable};"]
    return [f"  {line}" for line in lines]


def _single(name: str, each: Written, t: CType, n: int) -> str:
    f, values = each.function, f"values_{n}"
    passed = [f"{values}.{x}[i]" for x in f.program.inputs]
    passed += [f"out.{x}" for x in each.renamed.values()]
    lines = [f"static int check_{n}(void) {{", *_buffers(each, name, t), "  int n = 0;"]
    lines.append("  for (int i = 0; i < STATES; ++i) {")
    lines.append(f"    {name}_{f.name}({', '.join([*passed, 'work'])});")
    for x, out in each.renamed.items():
        size = len(f.program.outputs[x].nodes)
        lines.append(f"    n += wrong(out.{out}, {values}.{out}[i], {size});")
    return "\n".join([*lines, "  }", f'  return report("{name}_{f.name}", n);', "}", ""])


def _batch(name: str, each: Written, t: CType, n: int, states: int) -> str:
    f, values, sizes = each.function, f"values_{n}", each.sizes
    lines = [f"static int check_{n}_batch(void) {{", *_buffers(each, name, t, states)]
    most = max(1, *(sizes[x] for x in each.renamed.values()))
    lines += [f"  static {t.name} one[{most}];", "  int n = 0;"]
    lines.append(f"  for (int i = 0; i < {states}; ++i) {{")
    for x in f.program.inputs:
        copied = f"in.{x}[j * {states} + i] = {values}.{x}[i % STATES][j];"
        lines.append(f"    for (int j = 0; j < {sizes[x]}; ++j) {copied}")
    passed = [f"in.{x}" for x in f.program.inputs] + [f"out.{x}" for x in each.renamed.values()]
    lines += ["  }", f"  {name}_{f.name}_batch({', '.join([str(states), *passed, 'work'])});"]
    lines.append(f"  for (int i = 0; i < {states}; ++i) {{")
    for x in each.renamed.values():
        lines.append(
            f"    for (int j = 0; j < {sizes[x]}; ++j) one[j] = out.{x}[j * {states} + i];"
        )
        lines.append(f"    n += wrong(one, {values}.{x}[i % STATES], {sizes[x]});")
    return "\n".join([*lines, "  }", f'  return report("{name}_{f.name}_batch", n);', "}", ""])
