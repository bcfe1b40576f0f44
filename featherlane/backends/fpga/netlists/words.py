"""Models of multipliers and memories for many boards, whose wires have a bit for each.

A product is a sum of rows, in which each operation takes a bit of all boards. A memory has a word
of boards for each of its bits: boards with the same address are served together, and as they run
side by side most have it. What is stored or added here shares no text with the models of one board,
so that each checks the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from featherlane.backends.fpga.netlists.block_ram import (
    BYTE,
    NARROW,
    WIDTH,
    WORDS,
    enabled,
    initial_words,
    port_width,
)
from featherlane.backends.fpga.netlists.cells import (
    Statements,
    assigned,
    comb,
    edge,
    inputs,
    unknown,
    vector,
    words_at_start,
)
from featherlane.backends.fpga.netlists.read import (
    ONE,
    ZERO,
    Bit,
    DeviceCell,
    chosen,
    expression,
    inverted,
)
from featherlane.backends.fpga.text import indented

OPERAND, PRODUCT = 18, 36


def _minus(sign: str, other: str) -> str:
    """The statements that take an operand away at the upper bits where the other is negative."""
    return f"""\
  carry = ZERO;
  for (int k = 0; k < 18; k++) begin
    x = signed_{sign} & {sign}[17] & {other}[k];
    half = x ^ p[18 + k];
    x = x & ~p[18 + k];
    p[18 + k] = half ^ carry;
    carry = x | (carry & ~half);
  end
"""


# The product of two numbers, bit by bit; a negative one is taken for 2^18 more at first. Sizes of
# arrays are powers of two, so that Verilator checks no index.
MULTIPLY = f"""
function automatic void multiply(
  input level a [0:31], input level b [0:31], input level signed_a, input level signed_b,
  output level p [0:63]
);
  /* verilator no_inline_task */
  level carry, x, half;
  for (int k = 0; k < 36; k++) p[k] = ZERO;
  for (int i = 0; i < 18; i++) begin
    carry = ZERO;
    for (int k = 0; k < 18; k++) begin
      x = a[k] & b[i];
      half = x ^ p[i + k];
      x = x & p[i + k];
      p[i + k] = half ^ carry;
      carry = x | (carry & half);
    end
    p[i + 18] = carry;
  end
{_minus("a", "b")}{_minus("b", "a")}endfunction
""".strip().splitlines()


# Multipliers


def _multiplier(cell: DeviceCell) -> Statements:
    """A product of 18 x 18 bits, each signed if SIGNEDA or SIGNEDB is 1, and its registers."""
    for source in ("SOURCEA", "SOURCEB"):
        if cell.pin(source) == ONE:
            raise unknown(cell, f"{source} from the chain of shifts")
    name = f"product_{expression(next(b for n in range(36) for b in cell.ports.get(f'P{n}', ())))}"
    sizes = {"a": 32, "b": 32, "0": 64, "1": 64, "2": 64}
    lines = [f"level {name}_{part} [0:{size - 1}];" for part, size in sizes.items()]
    for port in "AB":
        values = cell.bits(port, OPERAND)
        lines += _staged(cell, f"REG_INPUT{port}", f"{name}_{port.lower()}", values)
    signs = ", ".join(cell.pin(f"SIGNED{port}") for port in "AB")
    lines.append(f"always_comb multiply({name}_a, {name}_b, {signs}, {name}_0);")
    for stage, register in enumerate(("REG_PIPELINE", "REG_OUTPUT")):
        values = [f"{name}_{stage}[{n}]" for n in range(PRODUCT)]
        lines += _staged(cell, register, f"{name}_{stage + 1}", values)
    return lines + [s for n in range(PRODUCT) for s in assigned(cell, f"P{n}", f"{name}_2[{n}]")]


def _staged(cell: DeviceCell, register: str, target: str, values: list[str]) -> Statements:
    """Bits behind registers of the cell, if these are in use."""
    clock = cell.parameters.get(f"{register}_CLK", "NONE")
    if clock == "NONE":
        return [f"assign {target}[{n}] = {value};" for n, value in enumerate(values)]
    enable = cell.pin(cell.parameters.get(f"{register}_CE", "CE0"))
    reset = cell.pin(cell.parameters.get(f"{register}_RST", "RST0"), "0")
    if reset != ZERO and cell.parameters.get("RESETMODE", "SYNC") == "ASYNC":
        raise unknown(cell, "an asynchronous reset of one board")
    lines = [
        f"{target}[{n}] <= {chosen(reset, ZERO, chosen(enable, value, f'{target}[{n}]'))};"
        for n, value in enumerate(values)
    ]
    return [f"always_ff @({edge(cell.pin(clock))}) begin", *indented(lines), "end"]


# Memories


def _served(boards: str, address: list[str], body: Iterable[str]) -> Statements:
    """A loop over the addresses that some boards have: `place` is one, `same` are the boards that
    have it. boards: those that are served; address: from the lowest bit on.
    """
    fixed = [n for n, bit in enumerate(address) if bit in (ZERO, ONE)]
    lines = ["one = left & -left;", "same = left;"]
    for n, bit in enumerate(address):
        if n in fixed:
            lines.append(f"place[{n}] = 1'b{int(bit == ONE)};")
        else:
            lines.append(f"place[{n}] = ({bit} & one) != {ZERO};")
            lines.append(f"same = same & (place[{n}] ? {bit} : {inverted(bit)});")
    lines += [*body, "left = left & ~same;"]
    return [f"left = {boards};", f"while (left != {ZERO}) begin", *indented(lines), "end"]


def _process(head: str, name: str, bits: int, lines: list[str]) -> Statements:
    """A process with the variables of `_served`. bits: of an address."""
    variables = ["level left, one, same;", f"logic [{bits - 1}:0] place;"]
    return [f"{head} begin : {name}", *indented([*variables, *lines]), "end"]


def _kept(target: str, value: str) -> str:
    """The statement by which the boards that are `same` take a value."""
    return f"{target} = (same & {value}) | (~same & {target});"


def _memory(table: int, data: list[str], write: list[str], read: list[str], out: Bit) -> Statements:
    """A memory of 16 bits that begins with those of a table. data: what is written, the clock and
    the enable; out: the net that reads.
    """
    net = expression(out)
    start = [ONE if table >> n & 1 else ZERO for n in range(16)]
    name, (taken, clock, enable) = f"bits_{net}", data
    takes = _served(enable, write, [_kept(f"{name}[place]", taken)])
    gives = [f"{net} = {ZERO};", *_served(ONE, read, [f"{net} = {net} | (same & {name}[place]);"])]
    return [
        f"level {name} [0:15];",
        "initial begin",
        *indented([f"{name}[{n}] = {value};" for n, value in enumerate(start)]),
        "end",
        *_process(f"always_ff @({edge(clock)})", f"write_{net}", 4, takes),
        *_process("always_comb", f"read_{net}", 4, gives),
    ]


def _comb(cell: DeviceCell) -> Statements:
    """A LUT of a routed slice, or its part of a memory."""
    if cell.parameters.get("MODE") != "DPRAM":
        return comb(cell)
    data = [cell.pin(name) for name in ("WD", "WCK", "WRE")]
    table = cell.number("INITVAL")
    return _memory(table, data, cell.bits("WAD", 4), inputs(cell), cell.ports["F"][0])


def _dpr16x4(cell: DeviceCell) -> Statements:
    control = [cell.pin("WCK"), cell.pin("WRE")]
    write, read = cell.bits("WAD"), cell.bits("RAD")
    columns = zip(words_at_start(cell), cell.ports["DO"], cell.bits("DI"), strict=True)
    return [
        s
        for table, bit, value in columns
        for s in _memory(table, [value, *control], write, read, bit)
    ]


# Block RAM


class RamPort(NamedTuple):
    """A port of a block RAM as statements of the memory's process. registered, direct: those of its
    outputs with and without the second register.
    """

    clock: str
    registered: Statements
    reads: Statements
    direct: Statements
    writes: Statements


def _block_ram(cell: DeviceCell) -> Statements:
    """A memory whose ports have one clock: both read before one writes."""
    nets = (bits[0] for port, bits in cell.ports.items() if port.startswith("DO") and bits)
    name = f"memory_{expression(next(nets))}"
    if 2 * WIDTH in (cell.number(f"DATA_WIDTH_{port}", WIDTH) for port in "AB"):
        ports = [*_wide_write(cell, name), *_wide_read(cell, name)]
    else:
        ports = [lines for port in "AB" for lines in _port(cell, name, port)]
    clocks = {port.clock for port in ports}
    if len(clocks) > 1:
        raise unknown(cell, "two clocks of one memory")
    contents = vector(f"{WIDTH}'h{word:x}" for word in initial_words(cell))
    steps = (s for step in range(1, len(RamPort._fields)) for port in ports for s in port[step])
    return [
        f"level {name} [0:{WORDS - 1}][0:{WIDTH - 1}];",
        f"level {name}_A [0:{WIDTH - 1}], {name}_B [0:{WIDTH - 1}];",
        f"localparam logic [{WORDS * WIDTH - 1}:0] {name}_start = {contents};",
        f"initial for (int n = 0; n < {WORDS}; n++) for (int k = 0; k < {WIDTH}; k++)",
        f"  {name}[n][k] = {name}_start[{WIDTH} * n + k] ? {ONE} : {ZERO};",
        f"initial for (int k = 0; k < {WIDTH}; k++) {name}_A[k] = {ZERO};",
        f"initial for (int k = 0; k < {WIDTH}; k++) {name}_B[k] = {ZERO};",
        *(s for c in clocks
          for s in _process(f"always_ff @({edge(c)})", f"ports_of_{name}", 10, [*steps])),
    ]  # fmt: skip


def _outputs(cell: DeviceCell, port: str, latest: str) -> list[tuple[str, str]]:
    """The nets at the outputs of a port, and what was read for them."""
    outputs = ((cell.ports.get(f"DO{port}{n}", ()), f"{latest}[{n}]") for n in range(WIDTH))
    return [(expression(bits[0]), value) for bits, value in outputs if bits]


def _port(cell: DeviceCell, memory: str, port: str) -> Iterator[RamPort]:
    """A port of at most 18 bits, if it is in use: bits of the address choose parts of the words."""
    latest, clock, write = f"{memory}_{port}", cell.pin(f"CLK{port}"), cell.pin(f"WE{port}")
    outputs = _outputs(cell, port, latest)
    if clock in (ZERO, ONE) or (not outputs and write == ZERO):
        return
    width = port_width(cell, port)
    mode = cell.parameters.get(f"WRITEMODE_{port}", "NORMAL")
    if mode == "WRITETHROUGH":
        raise unknown(cell, "a port that reads what it writes")
    address, enable = cell.bits(f"AD{port}", 14), enabled(cell, port)
    values = [f"{memory}[place][{n}]" for n in range(WIDTH)]
    half = address[3]
    if width < WIDTH:
        values = [chosen(half, values[n + BYTE], values[n]) for n in range(BYTE)]
    for bit, part in zip(address[2::-1], NARROW, strict=True):
        if width <= part:
            values = [chosen(bit, values[n + part], values[n]) for n in range(part)]
    body = [_kept(f"{latest}[{n}]", value) for n, value in enumerate(values)]
    reading = f"({enable}) & {inverted(write)}" if mode == "NORMAL" else enable
    reads = _served(reading, address[4:], body) if outputs else []
    data, halves = cell.bits(f"DI{port}", WIDTH), address[:2]
    if width == BYTE:
        data, halves = data[:BYTE] * 2, [inverted(half), half]
    writes = []
    for n, chosen_half in enumerate(halves if write != ZERO else ()):
        condition = f"({enable}) & {write} & {chosen_half}"
        writes += _written(memory, condition, address[4:], n, data[BYTE * n : BYTE * n + BYTE])
    yield _with_outputs(cell, port, clock, outputs, reads, writes)


def _with_outputs(
    cell: DeviceCell,
    port: str,
    clock: str,
    outputs: list[tuple[str, str]],
    reads: Statements,
    writes: Statements,
) -> RamPort:
    """A port with the statements of its outputs."""
    if cell.parameters.get(f"REGMODE_{port}", "NOREG") == "NOREG":
        direct = [f"{net} <= {value};" for net, value in outputs]
        return RamPort(clock, [], reads, direct, writes)
    keeps = cell.pin(f"OCE{port}")
    registered = [f"{net} <= {chosen(keeps, value, net)};" for net, value in outputs]
    return RamPort(clock, registered, reads, [], writes)


def _written(
    memory: str, condition: str, address: list[str], half: int, data: list[str]
) -> Statements:
    """The statements that write nine bits."""
    bits = [(f"{memory}[place][{BYTE * half + n}]", value) for n, value in enumerate(data)]
    return _served(condition, address, [_kept(bit, value) for bit, value in bits])


def _wide_write(cell: DeviceCell, memory: str) -> Iterator[RamPort]:
    """Port A of a memory of 36 bits, which writes: the lowest bits of its address enable bytes."""
    clock, write = cell.pin("CLKA"), cell.pin("WEA")
    if clock in (ZERO, ONE) or ZERO in (write, cell.pin("CEA")):
        return
    address, enable, writes = cell.bits("ADA", 14), enabled(cell, "A"), list[str]()
    for n, byte in enumerate(address[:4]):
        row, half = divmod(n, 2)
        data = cell.bits(f"DI{'AB'[row]}", WIDTH)[BYTE * half : BYTE * half + BYTE]
        place = [(ZERO, ONE)[row], *address[5:]]
        writes += _written(memory, f"({enable}) & {write} & {byte}", place, half, data)
    yield RamPort(clock, [], [], [], writes)


def _wide_read(cell: DeviceCell, memory: str) -> Iterator[RamPort]:
    """Port B of a memory of 36 bits, which reads: the lower half leaves at DOA."""
    if cell.pin("RSTB") != ZERO:
        raise unknown(cell, "a reset")
    if cell.parameters.get("REGMODE_B", "NOREG") != "NOREG":
        raise unknown(cell, "a register behind 36 bits")
    address, reads, outputs = cell.bits("ADB", 14), list[str](), list[tuple[str, str]]()
    for half, port in enumerate("AB"):
        latest = f"{memory}_{port}"
        body = [_kept(f"{latest}[{n}]", f"{memory}[place][{n}]") for n in range(WIDTH)]
        reads += _served(enabled(cell, "B"), [(ZERO, ONE)[half], *address[5:]], body)
        outputs += _outputs(cell, port, latest)
    yield _with_outputs(cell, "B", cell.pin("CLKB"), outputs, reads, [])


KINDS: dict[str, Callable[[DeviceCell], Statements]] = {
    "TRELLIS_COMB": _comb,
    "TRELLIS_DPR16X4": _dpr16x4,
    "MULT18X18D": _multiplier,
    "DP16KD": _block_ram,
}
