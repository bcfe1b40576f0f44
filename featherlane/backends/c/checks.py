"""The program that checks generated functions against values that the interpreter computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from featherlane.backends import reference
from featherlane.backends.c.arithmetic import CType

if TYPE_CHECKING:
    from featherlane.backends.c.library import Written

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
static int rounds_each(void) {{
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

static {T} largest_difference;

/* How many of some numbers are wrong. */
static int wrong(const {T} *given, const {T} *wanted, size_t count) {{
  {T} largest = 0;
  int n = 0;
  const int exact = rounds_each();
  for (size_t i = 0; i < count; ++i) largest = fmax{f}(largest, fabs{f}(wanted[i]));
  for (size_t i = 0; i < count; ++i) {{
    const int same = !memcmp(given + i, wanted + i, sizeof *given);
    const int both_nan = given[i] != given[i] && wanted[i] != wanted[i];
    const {T} difference = same || both_nan ? 0 : fabs{f}(given[i] - wanted[i]) / largest;
    if (!(difference <= largest_difference)) largest_difference = difference;
    n += exact ? !same && !both_nan : !(difference <= {tolerance});
  }}
  return n;
}}

static int report(const char *function, int n) {{
  printf("%-50s %s", function, n ? "DIFFERENT" : "ok");
  if (n) printf(": %d numbers", n);
  if (n || !rounds_each()) printf(", largest difference %.1e", (double)largest_difference);
  printf("\\n");
  largest_difference = 0;
  return n != 0;
}}
"""


def program(name: str, written: Sequence[Written], t: CType, dtype: np.dtype, lanes: int) -> str:
    """The text of the program. lanes: states of a tile."""
    states = len(next(iter(written[0].function.inputs.values()))) if written else 0
    fills = {
        "T": t.name,
        "f": t.suffix,
        "EPSILON": "DBL_EPSILON" if t.bits == 64 else "FLT_EPSILON",
    }
    loose = 1e-9 if t.bits == 64 else 1e-2
    tolerance = t.number(loose)
    parts = [TOP.format(name=name, states=states, loose=loose, tolerance=tolerance, **fills)]
    tests: list[str] = []
    for each in written:
        parts.append(_values(each, t, dtype))
        for suffix in each.forms:
            tests.append(f"check_{each.function.name}{suffix}")
            make = _batch if suffix else _single
            parts.append(make(name, each, t, tests[-1], 2 * lanes + 3))
    calls = "".join(f"  failures += {test}();\n" for test in tests)
    text = 'printf("%s\\n", failures ? "FAILED" : "all functions agree");'
    told = (
        'if (!rounds_each()) printf("products and sums are fused, or not rounded: see above\\n");'
    )
    parts.append(
        f"int main(void) {{\n  int failures = 0;\n{calls}  {told}\n  {text}\n"
        "  return failures != 0;\n}\n"
    )
    return "\n".join(parts)


def _arrays(each: Written) -> list[tuple[str, str, int]]:
    """The C names of the arrays of a function, of their values here, and their sizes."""
    f = each.function
    found = [(x, f"{f.name}_{x}", int(np.prod(shape))) for x, shape in f.program.inputs.items()]
    for x, (_, nodes) in f.program.outputs.items():
        found.append((each.renamed[x], f"{f.name}_{each.renamed[x]}", len(nodes)))
    return found


def _values(each: Written, t: CType, dtype: np.dtype) -> str:
    """The inputs and the outputs that are wanted, as constants of the program."""
    f = each.function
    inputs = {x: np.asarray(f.inputs[x], dtype) for x in f.program.inputs}
    outputs = reference.evaluate(f.program, inputs, dtype)
    values = [*inputs.values(), *[outputs[x] for x in f.program.outputs]]
    lines = []
    for (_, held, size), array in zip(_arrays(each), values, strict=True):
        lines.append(f"static const {t.name} {held}[STATES][{size}] = {{")
        for state in array.reshape(len(array), size):
            numbers = ", ".join(t.hexadecimal(float(x)) for x in state)
            lines.append(f"  {{{numbers}}},")
        lines.append("};")
    return "\n".join(lines) + "\n"


def _room(each: Written, name: str, t: CType, suffix: str, states: int) -> list[str]:
    """Arrays for the results, and for what the function works with."""
    from featherlane.backends.c.library import work_constant

    outputs = len(each.function.program.outputs)
    lines = [
        f"  static {t.name} {x}[{size}{f' * {states}' if suffix else ''}];"
        for x, _, size in _arrays(each)[-outputs:]
    ]
    return [*lines, f"  static {t.name} work[{work_constant(name, each, suffix)} + 1];"]


def _single(name: str, each: Written, t: CType, test: str, states: int) -> str:
    f, outputs = each.function, len(each.function.program.outputs)
    arrays = _arrays(each)
    passed = [f"{held}[i]" for _, held, _ in arrays[:-outputs]] + [
        x for x, _, _ in arrays[-outputs:]
    ]
    lines = [f"static int {test}(void) {{", *_room(each, name, t, "", states), "  int n = 0;"]
    lines.append("  for (int i = 0; i < STATES; ++i) {")
    lines.append(f"    {name}_{f.name}({', '.join([*passed, 'work'])});")
    lines += [f"    n += wrong({x}, {held}[i], {size});" for x, held, size in arrays[-outputs:]]
    return "\n".join([*lines, "  }", f'  return report("{name}_{f.name}", n);', "}", ""])


def _batch(name: str, each: Written, t: CType, test: str, states: int) -> str:
    f, outputs = each.function, len(each.function.program.outputs)
    arrays = _arrays(each)
    lines = [f"static int {test}(void) {{", *_room(each, name, t, "_batch", states)]
    for x, _, size in arrays[:-outputs]:
        lines.append(f"  static {t.name} {x}[{size} * {states}];")
    most = max((size for _, _, size in arrays[-outputs:]), default=1)
    lines += [f"  static {t.name} one[{most}];", "  int n = 0;"]
    lines.append(f"  for (int i = 0; i < {states}; ++i) {{")
    for x, held, size in arrays[:-outputs]:
        copied = f"{x}[j * {states} + i] = {held}[i % STATES][j];"
        lines.append(f"    for (int j = 0; j < {size}; ++j) {copied}")
    passed = [str(states), *[x for x, _, _ in arrays], "work"]
    lines += ["  }", f"  {name}_{f.name}_batch({', '.join(passed)});"]
    lines.append(f"  for (int i = 0; i < {states}; ++i) {{")
    for x, held, size in arrays[-outputs:]:
        lines.append(f"    for (int j = 0; j < {size}; ++j) one[j] = {x}[j * {states} + i];")
        lines.append(f"    n += wrong(one, {held}[i % STATES], {size});")
    return "\n".join([*lines, "  }", f'  return report("{name}_{f.name}_batch", n);', "}", ""])
