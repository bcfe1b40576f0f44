"""SystemVerilog of what lies around stations, by the modules of Dadu-RBD (2023, section V-B):
`decode` takes words of inputs apart, `schedule` counts credits and says which task each station
takes, `feedback` brings results back as inputs of a second pass, `encode` makes words of results.
"""

from __future__ import annotations

from collections.abc import Mapping

from featherlane.backends.fpga.labels import WordPlace, shared_places, word_comments
from featherlane.backends.fpga.network import links, slices, words
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
    """The conditions that the other links of a station have the words that the task of an entry
    takes together with the one of the entry.
    """
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
    """The signals that take the words of a station's task from links."""
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
    if network.slices_results:
        module.declare("loads", "ends")
    free = module.wire("free", None, _free(network))
    asks: list[str] = []
    sources: list[tuple[str, str]] = []
    for name in network.leading:
        module.input(f"{name}_filled")
        module.inputs_of_task(name)
        _add_source(module, name)
        instructions = [i for i, names in network.results.items() if names[0] == name]
        conditions = [f"{name}_filled"]
        for i in instructions:
            when = is_one_of(f"{name}_instruction", [i], instructions, network.code_bits)
            conditions += _add_parts(module, i, when)
            word = _task(network, i) if network.slices_results else _word(network, i, plan)
            sources.append((both(f"{name}_goes", when), word))
        asks.append(module.wire(f"{name}_asks", None, both(*conditions)))
        module.driven(f"{name}_take", None, module.declare(f"{name}_goes"))
    freed = module.driven("freed", None, f"{free} && ({' || '.join(asks)})")
    _add_round_robin(module, free, asks)
    if network.slices_results:
        _add_gathered_result(module, plan, sources)
    else:
        module.clocked(
            f"out_valid <= !reset && ({freed} || !{free});",
            f"if ({freed}) out_data <= {the_one(sources, plan.result_bits)};",
        )
    module.remarks(_word_comments(network, "out_data", plan.results))
    return module


def _free(network: Network) -> str:
    """The condition that a result may be taken from links: none is out, or under way."""
    out = "!out_valid || out_ready"
    return f"!loads && ({out})" if network.slices_results else out


def _add_source(module: ControlModule, name: str) -> None:
    """The head of a link of results, or a slice of it."""
    network, link = module.network, module.network.links[name]
    if link.sliced:
        module.input(f"{name}_slice", bits=slices.slice_bits(network, link))
    else:
        module.input(f"{name}_head", bits=link.bits)


def _add_gathered_result(
    module: ControlModule, plan: words.WordLayout, sources: list[tuple[str, str]]
) -> None:
    """The word of a result, of which the numbers come in slices; sources: the tag and the code."""
    network, head = module.network, sum(plan.tag)
    bits, slicing = plan.result_bits - head, network.slices
    whole = slicing.columns(bits) * slicing.chunk
    chosen: list[tuple[str, str]] = []
    for name in dict.fromkeys(name for names in network.results.values() for name in names):
        link, taken = network.links[name], module.declare(f"{name}_taken")
        module.clocked(f"if (freed) {taken} <= {name}_take;")
        width = slices.slice_bits(network, link)
        first = network.result_offset(link) // (slicing.steps * slicing.chunk) * slicing.chunk
        rest = whole - first - width
        parts = [f"{rest}'b0"] * (rest > 0) + [f"{name}_slice"] + [f"{first}'b0"] * (first > 0)
        chosen.append((taken, f"{{{', '.join(parts)}}}" if len(parts) > 1 else parts[0]))
    module.declare("numbers", bits=bits)
    module.declare("taken", bits=head)
    _, register, _ = slices.names(network)
    ports = {
        "clock": "clock", "reset": "reset", "start": "freed", "word": "numbers",
        "slice": module.wire("slice", whole, the_one(chosen, whole)), "loads": "loads",
        "ends": "ends",
    }  # fmt: skip
    module.instance(register, "gathered", ports, {"WIDTH": bits, "SLICE": whole})
    module.assign("out_data", "{numbers, taken}")
    module.clocked(
        "out_valid <= !reset && (ends || (out_valid && !out_ready));",
        f"if (freed) taken <= {the_one(sources, head)};",
    )


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
        _add_source(module, name)
        module.driven(f"{name}_take", None, both(f"{first}_goes", when))
    return conditions


def _word(network: Network, instruction: int, plan: words.WordLayout) -> str:
    """The word of a result: zeros, its numbers, the tag and the code."""
    names = network.results[instruction]
    numbers = sum(network.links[name].bits for name in names)
    rest = plan.result_bits - sum(plan.tag) - numbers
    parts = [f"{{{rest}{{1'b0}}}}"] if rest else []  # numbers have 65,536 bits at most
    parts += [*(f"{name}_head" for name in names[::-1]), _task(network, instruction)[1:-1]]
    return f"{{{', '.join(parts)}}}"


def _task(network: Network, instruction: int) -> str:
    """The tag and the code in front of a result."""
    code = network.codes[network.function_of(instruction)]
    return f"{{{network.results[instruction][0]}_tag, {network.code_bits}'d{code}}}"
