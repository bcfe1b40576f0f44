"""The model of the ECP5's block RAM: 1,024 x 18 bits with two ports of 9 or 18 bits, which can read
4, 2 or 1 of the lower eight of nine, or 512 x 36 bits of which port A writes and port B reads.
"""

from __future__ import annotations

from featherlane.backends.fpga.netlists.cells import (
    Statements,
    assigned,
    edge,
    unknown,
    vector,
)
from featherlane.backends.fpga.netlists.read import ONE, ZERO, DeviceCell, expression, inverted

WORDS, WIDTH, BYTE = 1024, 18, 9
NARROW = (4, 2, 1)  # bits of words that are read only


def block_ram(cell: DeviceCell) -> Statements:
    """A memory with its ports, each in its process."""
    nets = (bits[0] for port, bits in cell.ports.items() if port.startswith("DO") and bits)
    name = f"memory_{expression(next(nets))}"
    rows = [f"  {name}[{n}] = {WIDTH}'h{word:x};" for n, word in enumerate(initial_words(cell))]
    lines = [f"logic [{WIDTH - 1}:0] {name} [0:{WORDS - 1}];", "initial begin", *rows, "end"]
    widths = [cell.number(f"DATA_WIDTH_{port}", WIDTH) for port in "AB"]
    if 2 * WIDTH in widths:
        return lines + _wide_write(cell, name) + _wide_read(cell, name)
    return lines + _port(cell, name, "A") + _port(cell, name, "B")


def initial_words(cell: DeviceCell) -> list[int]:
    """The words at the start: each parameter has 16, of which each has 18 bits of 20."""
    values = [cell.number(f"INITVAL_{n:02X}") for n in range(WORDS // 16)]
    return [value >> 20 * n & (1 << WIDTH) - 1 for value in values for n in range(16)]


def _port(cell: DeviceCell, memory: str, port: str) -> Statements:
    """A port, if it is in use."""
    clock, write = cell.pin(f"CLK{port}"), cell.pin(f"WE{port}")
    outputs = [n for n in range(WIDTH) if not cell.is_open(f"DO{port}{n}")]
    if clock in (ZERO, ONE) or (not outputs and write == ZERO):
        return []
    width = port_width(cell, port)
    address, latest = cell.bits(f"AD{port}", 14), f"{memory}_{port}"
    place = f"{memory}[{vector(address[4:])}]"
    lines = _written(cell, port, width, place, address) if write != ZERO else []
    lines.append(_read(cell, port, width, place, address, latest))
    process = f"always_ff @({edge(clock)}) if"
    lines = [f"logic [{WIDTH - 1}:0] {latest} = '0;", f"{process} ({enabled(cell, port)}) begin",
             *(f"  {line}" for line in lines), "end"]  # fmt: skip
    if cell.parameters.get(f"REGMODE_{port}", "NOREG") != "NOREG":
        lines.append(f"logic [{WIDTH - 1}:0] {latest}_2 = '0;")
        lines.append(f"{process} ({cell.pin(f'OCE{port}')}) {latest}_2 <= {latest};")
        latest = f"{latest}_2"
    return lines + [s for n in outputs for s in assigned(cell, f"DO{port}{n}", f"{latest}[{n}]")]


def port_width(cell: DeviceCell, port: str) -> int:
    """The bits of a port's words. Raises CompileError for a port that the models do not know."""
    width = cell.number(f"DATA_WIDTH_{port}", WIDTH)
    if width not in (WIDTH, BYTE, *NARROW):
        raise unknown(cell, f"words of {width} bits")
    if width in NARROW and cell.pin(f"WE{port}") != ZERO:
        raise unknown(cell, f"writes of {width} bits")
    if cell.pin(f"RST{port}") != ZERO:
        raise unknown(cell, "a reset")
    return width


def _halves(cell: DeviceCell, memory: str, port: str) -> list[str]:
    """The two words of 18 bits of one of 36, the lower half first."""
    address = cell.bits(f"AD{port}", 14)[5:]
    return [f"{memory}[{vector([half, *address])}]" for half in (ZERO, ONE)]


def _wide_write(cell: DeviceCell, memory: str) -> Statements:
    """The port that writes 36 bits: the lowest bits of its address enable bytes."""
    clock, write = cell.pin("CLKA"), cell.pin("WEA")
    if clock in (ZERO, ONE) or ZERO in (write, cell.pin("CEA")):
        return []
    lines = list[str]()
    for half, place in zip("AB", _halves(cell, memory, "A"), strict=True):
        data, enables = cell.bits(f"DI{half}", WIDTH), cell.bits("ADA", 4)
        for n, enable in enumerate(enables[2:] if half == "B" else enables[:2]):
            value = vector(data[BYTE * n : BYTE * n + BYTE])
            bits = f"{place}[{BYTE * n + 8}:{BYTE * n}]"
            lines.append(f"  if ({write} & {enable}) {bits} <= {value};")
    return [f"always_ff @({edge(clock)}) if ({enabled(cell, 'A')}) begin", *lines, "end"]


def _wide_read(cell: DeviceCell, memory: str) -> Statements:
    """The port that reads 36 bits: the lower half leaves at DOA, as Yosys connects it."""
    clock, latest = cell.pin("CLKB"), f"{memory}_B"
    if cell.pin("RSTB") != ZERO:
        raise unknown(cell, "a reset")
    if cell.parameters.get("REGMODE_B", "NOREG") != "NOREG":
        raise unknown(cell, "a register behind 36 bits")
    low, high = _halves(cell, memory, "B")
    take = f"if ({enabled(cell, 'B')}) {latest} <= {{{high}, {low}}};"
    lines = [f"logic [{2 * WIDTH - 1}:0] {latest} = '0;", f"always_ff @({edge(clock)}) {take}"]
    ends = [(half, n) for half in range(2) for n in range(WIDTH)]
    return lines + [
        text
        for half, n in ends
        for text in assigned(cell, f"DO{'AB'[half]}{n}", f"{latest}[{WIDTH * half + n}]")
    ]


def enabled(cell: DeviceCell, port: str) -> str:
    """The condition in which a port reads or writes: its clock enable, and its number of three
    bits at CS.
    """
    selected = cell.number(f"CSDECODE_{port}")
    pins = [
        pin if selected >> n & 1 else inverted(pin)
        for n, pin in enumerate(cell.bits(f"CS{port}", 3))
    ]
    return " & ".join(x for x in (cell.pin(f"CE{port}"), *pins) if x != ONE) or ONE


def _written(cell: DeviceCell, port: str, width: int, place: str, address: list[str]) -> Statements:
    """The statements that write: with 18 bits the two lowest bits of the address enable bytes,
    with 9 bits the one above them chooses one.
    """
    if cell.parameters.get(f"WRITEMODE_{port}", "NORMAL") == "WRITETHROUGH":
        raise unknown(cell, "a port that reads what it writes")
    write, data = cell.pin(f"WE{port}"), cell.bits(f"DI{port}", WIDTH)
    halves = (inverted(address[3]), address[3]) if width == BYTE else (address[0], address[1])
    lines = []
    for half, enable in enumerate(halves):
        first = BYTE * half
        value = vector(data[:BYTE] if width == BYTE else data[first : first + BYTE])
        lines.append(f"if ({write} & {enable}) {place}[{first + 8}:{first}] <= {value};")
    return lines


def _read(
    cell: DeviceCell, port: str, width: int, place: str, address: list[str], latest: str
) -> str:
    """The statement that reads, before a write; in the mode NORMAL a write reads nothing."""
    value = place
    if width < WIDTH:
        first = f"{BYTE} * {address[3]}"
        if width in NARROW:
            first = f"{first} + {width} * {vector(address[2 - NARROW.index(width) : 3])}"
        value = f"{WIDTH}'({place}[{first} +: {width}])"
    normal = cell.parameters.get(f"WRITEMODE_{port}", "NORMAL") == "NORMAL"
    condition = f"if ({inverted(cell.pin(f'WE{port}'))}) " if normal else ""
    return f"{condition}{latest} <= {value};"
