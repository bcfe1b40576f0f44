"""Functions specialised to the set of their parameters that are numbers.

In a chain, the step of the first link has a parent at rest: it is the same function as for other
links, but some operands are constants. A clone for these calls reads no memory for them, and
`propagate` may fold them.
"""

from __future__ import annotations

from featherlane.program.program import Program


def specialise(program: Program) -> Program:
    """The program in which each parameter of a function is a number in all calls or in none."""
    main = program.main
    constant = bytearray(len(main))
    for k in main.nodes_of("constant"):
        constant[k] = 1
    clones: dict[tuple[int, bytes], int] = {}
    value = list(main.value)
    for k in main.nodes_of("call"):
        pattern = bytes(map(constant.__getitem__, main.args[k]))
        value[k] = clones.setdefault((value[k], pattern), len(clones))
    functions = tuple(program.functions[f] for f, _ in clones)
    return Program(main.replaced(value=value), functions)
