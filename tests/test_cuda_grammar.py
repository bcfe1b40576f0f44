"""The grammar of PTX takes nothing that NVIDIA's assembler refuses: lines of kernels are changed in
all ways that come to mind, and those that the grammar still takes are assembled.
"""

import re

import numpy as np
import pytest
from assembler import needs_ptxas, refusals
from gpu_emulator import grammar
from test_backend import every_operation

import featherlane as fl
from featherlane.backends.cuda import parse, stages
from featherlane.errors import CompileError
from featherlane.functions.long.on_gpu import LongOnGPU
from featherlane.functions.table import Variant
from featherlane.program.lower import lower
from featherlane.program.program import Program

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
ONES = {"f32": "0f3F800000", "f64": "0d3FF0000000000000"}
OPERANDS = (
    *("%f0", "%f1", "%b0", "%r0", "%r1", "%w0", "%w1", "%p0", "%f99999", "%r99999", "%f00", "%q0"),
    *("%tid.x", "%ctaid.x", "%tid.w", "%laneid", "%clock64", "WARP_SZ", "memory", "nothing", "f"),
    *("0", "1", "31", "007", "0x10", "4294967295", "4294967296", "18446744073709551615", "-1"),
    *("18446744073709551616", "1.5", "1e3", "0f3F800000", "0f3F8", "0d3FF0000000000000", "!%p0"),
    *("[%w0]", "[%w0+4]", "[%r0]", "[%r0+16]", "[0]", "[0+16]", "[4294967296]", "[%w0+2147483648]"),
    *("[%f0]", "[a0]", "[count]", "[nothing]", "[%w0+-4]", "[%w0+%r0]", "[memory]", "[memory+16]"),
    *("{%f0}", "{%f0, %f1}", "{%f0, %f0}", "{%r0, %r1}", "{%f0, %f1, %f2}", "{%f0, %f1, %f2, %f3}"),
    *("{%f0, 0f3F800000}", "$L1", "$L99999", "()", "(%r0)", "_", "%f0|%f1", "-%f0", "|%f0|"),
)
PARTS = (
    *("u8", "u16", "u32", "u64", "s32", "s64", "b8", "b16", "b32", "b64", "b128", "f16", "f32"),
    *("f64", "pred", "rn", "rz", "rni", "rzi", "ftz", "sat", "approx", "full", "lo", "hi", "wide"),
    *("and", "or", "eq", "ne", "lt", "gtu", "v2", "v3", "v4", "v8", "global", "shared", "local"),
    *("param", "const", "uni", "warp", "sync", "volatile", "relaxed", "cc", "x"),
)
NAMES = ("mov", "add", "mul", "mad", "fma", "setp", "selp", "cvt", "ld", "st", "neg", "sqrt", "shl")


def robot_text(name, function, mapping, dtype):
    return fl.load(name).function(function).gpu.kernels(mapping, "f", dtype).texts[0]


def operations(dtype):
    graph, _ = every_operation(True, dtype)
    return stages.kernels(lower(Program(graph), "cuda", dtype), "f", dtype).texts[0]


def chain(dtype):
    made = LongOnGPU("test", fl.chain(20, seed=1), Variant("inverse_dynamics"), "links:32")
    return made.kernels("links:32", "f", dtype).texts[0]


def rollout(dtype):
    function = fl.load("double_pendulum")._function(Variant("rollout", integrator="rk4", steps=3))
    return function.gpu.kernels("lanes", "f", dtype).texts[0]


TEXTS = {
    "operations f32": lambda: operations(F32),
    "operations f64": lambda: operations(F64),
    "lanes f32": lambda: robot_text("double_pendulum", "forward_dynamics", "lanes", F32),
    "lanes f64": lambda: robot_text("iiwa14", "mass_matrix", "lanes", F64),
    "team f32": lambda: robot_text("iiwa14", "inverse_dynamics", "team:2", F32),
    "chain f32": lambda: chain(F32),
    "chain f64": lambda: chain(F64),
    "rollout f64": lambda: rollout(F64),
}


def codes(text):
    """The kernels and functions of a text, each with what checks its lines."""
    for what, name in re.findall(r"\.(entry|func) (\w+)\(\n", text):
        yield name, what, grammar.checker_of(text, name, what)


def check_all(text):
    for name, what, _ in codes(text):
        grammar.checked(text, name, what)


def is_taken(checker, line):
    try:
        checker.check(parse.instruction(line))
    except CompileError:
        return False
    return True


def form(line):
    """A line with the kinds of its operands alone."""
    return re.sub(r"(?<=[%a-z$L])\d+|0[fd][0-9A-F]+", "", re.sub(r"(?<=[ +])\d+", "0", line))


def changed(line):
    """Lines that differ from one in an operand, in its name, or in its guard."""
    guard, rest = re.fullmatch(r"(@\S+ )?(.*);", line).groups()
    guard, (name, _, operands) = guard or "", rest.partition(" ")
    listed, parts = parse.OPERANDS.findall(operands), name.split(".")
    write = lambda name, listed, guard=guard: f"{guard}{name} {', '.join(listed)};".replace(
        " ;", ";"
    )
    for k in range(len(listed)):
        yield write(name, [*listed[:k], *listed[k + 1 :]])
        yield write(name, [*listed[:k], listed[k], *listed[k:]])
        for other in (*OPERANDS, *listed):
            yield write(name, [*listed[:k], other, *listed[k + 1 :]])
    yield write(name, [*listed, "%f0"])
    for k in range(len(parts)):
        yield write(".".join([*parts[:k], *parts[k + 1 :]]), listed)
        for other in PARTS if k else NAMES:
            yield write(".".join([*parts[:k], other, *parts[k + 1 :]]), listed)
            yield write(".".join([*parts[: k + 1], other, *parts[k + 1 :]]), listed)
    for other in ("", "@%p0 ", "@!%p0 ", "@%r0 ", "@%p99999 ", "@p0 ", "@%p0", "@1 "):
        yield write(name, listed, other)
    yield from (line[:-1], line + ";", line.replace(", ", " "), line.replace(", ", ",,"))


@needs_ptxas
@pytest.mark.parametrize("name", TEXTS)
def test_changed_lines_that_the_grammar_takes_are_assembled(name):
    text, seen, taken, refused = TEXTS[name](), set(), 0, 0
    for code, what, checker in codes(text):
        for line in checker.code.lines:
            if form(line.line) in seen:
                continue
            seen.add(form(line.line))
            assert is_taken(checker, line.line)
            others = [*dict.fromkeys(changed(line.line))]
            mine = [x for x in others if is_taken(checker, x)]
            taken, refused = taken + len(mine), refused + len(others) - len(mine)
            start = text.index(line.line + "\n", text.index(f".{what} {code}("))
            text = "\n".join([text[:start] + line.line, *mine, text[start + len(line.line) + 1 :]])
    assert not refusals(text)
    assert taken > 100
    assert refused > 10 * taken


DECLARATIONS = {
    "another version": (".version 6.4", ".version 2.0"),
    "no target": (".target sm_70\n", ""),
    "no shared memory": (".extern .shared .align 16 .b8 memory[];\n", ""),
    "no registers": (".reg .f32 %f<", ".reg .f32 %g<"),
    "registers twice": (".reg .f32 %f<", ".reg .f32 %f<9>;\n.reg .f32 %f<"),
    "too few registers": (re.compile(r"\.reg \.f32 %f<\d+>"), ".reg .f32 %f<3>"),
    "registers of another type": (".reg .f32 %f<", ".reg .f64 %f<"),
    "no parameter": (".param .u64 count", ".param .u64 number"),
    "no table": (re.compile(r"\.global .*\n"), ""),
    "a table behind the kernel": (re.compile(r"(\.global .*\n)((?:.|\n)*)"), r"\2\1"),
    "no label": (re.compile(r"(bra \$L\d+);((?:.|\n)*)"), r"\g<1>99;\2"),
    "a label twice": ("$L1:\n", "$L1:\n$L1:\n"),
    "no end of a line": ("ret;", "ret"),
}


@needs_ptxas
@pytest.mark.parametrize("change", DECLARATIONS)
def test_what_is_not_declared_is_refused_by_both(change):
    before, after = DECLARATIONS[change]
    text = TEXTS["team f32"]()
    wrong = re.sub(before if isinstance(before, re.Pattern) else re.escape(before), after, text)
    assert wrong != text
    assert not refusals(text)
    check_all(text)
    with pytest.raises(CompileError):
        check_all(wrong)
    assert refusals(wrong)


REFUSED = (
    "mad.lo.u32 %r1, %r0, 512, %tid.x;",
    "add.rn.f32 %f0, %f1;",
    "add.rn.f32 %f0, %f1, %w0;",
    "add.u32 %r0, %r0, 0f3F800000;",
    "div.f32 %f0, %f0, %f1;",
    "sqrt.f32 %f0, %f0;",
    "fma.f32 %f0, %f0, %f0, %f0;",
    "ld.global.v3.f32 {%f0, %f1, %f2}, [%w0];",
    "ld.global.v4.f32 {%f0, %f1}, [%w0];",
    "ld.shared.f32 %f0, [16];",
    "ld.param.f32 %f0, [nothing];",
    "st.param.u64 [count], %w0;",
    "shl.u32 %r0, %r0, 2;",
    "mov.u64 %w0, %tid.x;",
    "setp.lt.b32 %p0, %r0, %r1;",
    "selp.f32 %f0, %f0, %f1, %r0;",
    "cvt.f32.f64 %f0, %f1;",
    "bra $L99999;",
    "@%r0 ret;",
)


@needs_ptxas
@pytest.mark.parametrize("line", REFUSED)
def test_lines_that_both_refuse(line):
    text = robot_text("double_pendulum", "forward_dynamics", "lanes", F32)
    ((_, _, checker),) = codes(text)
    assert not is_taken(checker, line)
    assert refusals(text.replace("\nret;", f"\n{line}\nret;"))
