"""SystemVerilog of what lies around stations, by the modules of Dadu-RBD (2023, section V-B):
`decode` takes words of inputs apart, `schedule` counts credits and says which task each station
takes, `feedback` brings results back as inputs of a second pass, `encode` makes words of results.
"""

from __future__ import annotations

from collections.abc import Mapping

from featherlane.backends.fpga.labels import WordPlace, shared_places, word_comments
from featherlane.backends.fpga.network import links, words
from featherlane.backends.fpga.network.structure import Channel, Network, Station
from featherlane.backends.fpga.network.text import (
    ControlModule,
    bits_of,
    both,
    instructions_of,
    is_one_of,
    taken_by,
    the_one,
)


def decode(network: Network) -> ControlModule:
    """The parts of a word of inputs. Those that are wires to a station are 0 where a function has
    none, so that the acceleration of forward dynamics is. An unknown code is the first function's.
    """
    module, plan = (
        ControlModule(network, "decode", "Words of inputs taken apart"),
        words.layout(network),
    )
    every, (_, bits), (start, tag_bits) = [*network.codes.values()], plan.code, plan.tag
    module.input("data", bits=plan.input_bits)
    module.outputs_of_task("task")
    code = module.wire("code", bits, bits_of("data", 0, bits))
    known = is_one_of(code, every, range(1 << bits), bits)
    module.assign("task_instruction", f"{known} ? {code} : {bits}'d{every[0]}")
    module.assign("task_tag", bits_of("data", start, tag_bits))
    places = words.offsets(network, start + tag_bits)
    for name, channels in words.decoded(network).items():
        width = channels[0].bits
        text = bits_of("data", places[name], width)
        used = {i for link in channels for i in link.puts}
        if any(link.depth == 0 for link in channels) and not used >= {*every}:
            when = is_one_of("task_instruction", used, every, bits)
            text = f"{{{width}{{{when}}}}} & {text}"
        module.driven(name, width, text)
    module.remarks(_word_comments(network, "data", plan.inputs))
    return module


# Schedule


def schedule(network: Network) -> ControlModule:
    """The choice of the task that each station takes, and whether one may come: only while there
    is a credit, which stands for a place in every link.
    """
    module = ControlModule(network, "schedule", "Credits, and the tasks that stations take")
    module.input("clock", "reset", "in_valid", "freed")
    module.output("in_ready")
    module.inputs_of_task("task")
    bits = network.depth.bit_length()
    module.declare("credits", bits=bits)
    for station in network.stations.values():
        module.input(f"{station.name}_ready")
        module.output(f"{station.name}_take")
        module.outputs_of_task(station.name)
        _add_choice(module, station)
        _add_takes(module, station)
    module.clocked(f"""
        if (reset) credits <= {bits}'d{network.depth};
        else if ((in_valid && in_ready) != freed)
          credits <= freed ? credits + 1'b1 : credits - 1'b1;
    """)
    return module


def _prompt(network: Network, station: Station) -> list[Channel]:
    """The links with places that a station takes from together with a task."""
    return [
        link
        for link in network.into(station.name)
        if link.depth and not station.inputs[link.target.port].cycle
    ]


def _add_choice(module: ControlModule, station: Station) -> None:
    """The first entry of a station, by priority, that has a task and all that goes with it."""
    chosen: list[tuple[str, str]] = []
    for name in station.entries:
        goes = module.declare(f"{name}_goes")
        free = [f"{station.name}_ready", *(f"!{other}" for other, _ in chosen)]
        if module.network.links[name].depth:
            module.input(f"{name}_filled")
            module.inputs_of_task(name)
            module.assign(goes, both(*free, f"{name}_filled", *_joined(module, station, name)))
            chosen.append((goes, name))
        else:
            module.assign("in_ready", both(*free, "credits != 0"))
            module.assign(goes, "in_valid && in_ready")
            chosen.append((goes, "task"))
    module.assign(f"{station.name}_take", " || ".join(goes for goes, _ in chosen))
    for part in ("instruction", "tag"):
        *first, (_, last) = chosen
        text = "".join(f"{goes} ? {source}_{part} : " for goes, source in first)
        module.assign(f"{station.name}_{part}", f"{text}{last}_{part}")


def _joined(module: ControlModule, station: Station, entry: str) -> list[str]:
    """The conditions that other links have what the task of an entry takes with it."""
    network, conditions = module.network, list[str]()
    instructions = instructions_of([network.links[entry]])
    for link in _prompt(network, station):
        if link.name != entry and link.takes & instructions:
            filled = module.input(f"{link.name}_filled")
            when = is_one_of(
                f"{entry}_instruction", link.takes & instructions, instructions, network.code_bits
            )
            conditions.append(both(f"(!{when} || {filled})" if when[-2:] != "b1" else filled))
    return conditions


def _add_takes(module: ControlModule, station: Station) -> None:
    """From which links the task of a station takes."""
    network, every = module.network, taken_by(module.network, station)
    for link in _prompt(network, station):
        if link.name in station.entries:
            module.driven(f"{link.name}_take", None, f"{link.name}_goes")
        elif link.takes & every:
            module.input(f"{link.name}_filled")
            task = f"{station.name}_instruction"
            when = is_one_of(task, link.takes, every, network.code_bits)
            module.driven(f"{link.name}_take", None, both(f"{station.name}_take", when))


# Feedback


def feedback(network: Network) -> ControlModule:
    """The links that come back, and what waits for them. What the formats of inputs do not hold is
    the nearest number that they do.
    """
    module = ControlModule(network, "feedback", "Results that are inputs again")
    module.input("clock", "reset")
    for link in network.links.values():
        if links.is_fed_back(network, link):
            links.connect(module, link, outside=True)
            links.add_fifo(module, link)
    return module


# Encode


def encode(network: Network) -> ControlModule:
    """Results in words, one in a register. A round robin chooses among links that have one, so that
    none waits for more than one result of each other link.
    """
    module, plan = ControlModule(network, "encode", "Words of results"), words.layout(network)
    module.input("clock", "reset", "out_ready")
    module.output("out_valid")
    module.output("out_data", bits=plan.result_bits)
    free = module.wire("free", None, "!out_valid || out_ready")
    asks: list[str] = []
    sources: list[tuple[str, str]] = []
    for name in network.leading:
        module.input(f"{name}_filled")
        module.inputs_of_task(name)
        module.input(f"{name}_head", bits=network.links[name].bits)
        instructions = [i for i, names in network.results.items() if names[0] == name]
        conditions = [f"{name}_filled"]
        for i in instructions:
            when = is_one_of(f"{name}_instruction", [i], instructions, network.code_bits)
            conditions += _add_parts(module, i, when)
            sources.append((both(f"{name}_goes", when), _word(network, i, plan.result_bits)))
        asks.append(module.wire(f"{name}_asks", None, both(*conditions)))
        module.driven(f"{name}_take", None, module.declare(f"{name}_goes"))
    freed = module.driven("freed", None, f"{free} && ({' || '.join(asks)})")
    _add_round_robin(module, free, asks)
    module.clocked(
        f"out_valid <= !reset && ({freed} || !{free});",
        f"if ({freed}) out_data <= {the_one(sources, plan.result_bits)};",
    )
    module.remarks(_word_comments(network, "out_data", plan.results))
    return module


def _word_comments(
    network: Network, signal: str, entries: Mapping[str, tuple[words.WordEntry, ...]]
) -> list[str]:
    """Lines that tell which bits of a word are which entry. entries: of each function."""
    if not network.labels.entries:
        return []
    plan = words.layout(network)
    codes = ", ".join(f"{code} {name}" for name, code in network.codes.items())
    places = {
        function: [WordPlace(e.entry, e.offset, e.width) for e in listed]
        for function, listed in entries.items()
    }
    return [
        f"{bits_of(signal, *plan.code)}: the function, {codes}",
        f"{bits_of(signal, *plan.tag)}: a number that the result of a task has, too",
        *word_comments(signal, shared_places(places), network.labels.entries),
    ]


def _add_round_robin(module: ControlModule, free: str, asks: list[str]) -> None:
    """The link whose result goes, by round robin: the first that has one behind the last one's."""
    leading, n = module.network.leading, len(asks)
    if n == 1:
        module.assign(f"{leading[0]}_goes", both(free, *asks))
        return
    module.wire("asks", n, f"{{{', '.join(asks[::-1])}}}")
    module.declare("mask", bits=n)  # a bit for each link behind the one that was last
    module.wire("chosen", n, "|(asks & mask) ? asks & mask : asks")
    module.wire("goes", n, f"{{{n}{{{free}}}}} & chosen & -chosen")  # the lowest bit that is set
    for k, name in enumerate(leading):
        module.assign(f"{name}_goes", f"goes[{k}]")
    module.clocked("""
        if (reset) mask <= '0;
        else if (freed) mask <= ~(goes | (goes - 1'b1));
    """)


def _add_parts(module: ControlModule, instruction: int, when: str) -> list[str]:
    """The links that a result has parts in, beside the one that leads: takes from them, and the
    conditions that they have one.
    """
    first, *others = module.network.results[instruction]
    conditions = []
    for name in others:
        conditions.append(f"({module.input(f'{name}_filled')} || !({when}))")
        module.input(f"{name}_head", bits=module.network.links[name].bits)
        module.driven(f"{name}_take", None, both(f"{first}_goes", when))
    return conditions


def _word(network: Network, instruction: int, width: int) -> str:
    """The word of a result: zeros, its numbers, the tag and the code."""
    names, bits = network.results[instruction], network.code_bits
    code = network.codes[network.function_of(instruction)]
    rest = width - bits - network.tag_bits - sum(network.links[name].bits for name in names)
    parts = [f"{{{rest}{{1'b0}}}}"] if rest else []  # numbers have 65,536 bits at most
    parts += [*(f"{name}_head" for name in names[::-1]), f"{names[0]}_tag", f"{bits}'d{code}"]
    return f"{{{', '.join(parts)}}}"
