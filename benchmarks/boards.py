"""What does it cost to put a pipeline on a board? For streams of several widths and both layouts:
beats of a task and of its result, cycles of a task as predicted and as simulated behind a DMA that
never pauses, LUTs and flip-flops of the wrapper alone, and the host's processor
time for a task.
"""

import sys
from time import process_time

import numpy as np
from options import parser, write_json
from synthesis import synthesised

import featherlane as fl
from featherlane.backends.fixed.evaluate import evaluate, floats
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.module import Module, sources
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.stream import add_stream_ports

STALLS = 64  # of 256 cycles


def options():
    made = parser(__doc__, robots=["iiwa14"], functions=set(fl.FUNCTIONS), json=None)
    made.add_argument("--interval", type=int, default=4, help="cycles (%(default)s)")
    made.add_argument("--format", default="fitted", help="of numbers (%(default)s)")
    made.add_argument("--widths", type=int, nargs="+", default=[128, 512])
    made.add_argument("--states", type=int, default=10_000, help="of each (%(default)s)")
    made.add_argument("--synthesised", action="store_true", help="also LUTs and flip-flops")
    return made.parse_args()


def wrapper_resources(board: WrappedCore) -> Resources:
    """The resources of the wrapper for UltraScale+ devices, without those of what it is around.
    Raises CompileError if Yosys is missing.
    """
    core = board.core
    outline = Module(core.name, directive="(* blackbox *)")
    add_stream_ports(outline, core.results.bits, core.tasks.bits)
    return synthesised(sources({core.name: outline, **board.modules}), board.name)


def rows(args):
    for robot in args.robots:
        for function in args.functions or ["inverse_dynamics"]:
            model = fl.load(robot)
            made = fl.accelerator(model, function, interval=args.interval, format=args.format)
            states = made.samples(args.states)
            datapath = made.function.datapath
            wanted = floats(datapath, evaluate(datapath, states).integers)
            for width in args.widths:
                for layout in ("packed", "words"):
                    yield {
                        "robot": robot,
                        "function": function,
                        "width": width,
                        "layout": layout,
                        **figures(made.board(width, layout), states, wanted, args),
                    }


def figures(board, states, wanted, args):
    """What is told of one board."""
    rate, wrong = board.rate, 0
    for stalls in (STALLS, 0):  # the cycles are those of the second one
        run = board.simulated(tasks_per_packet=args.states, stalls=stalls, pause=stalls).run(states)
        wrong += sum(np.count_nonzero(run.results[name] != x) for name, x in wanted.items())
    needs = wrapper_resources(board.wrapped) if args.synthesised else None
    return {
        "beats of a task": rate.task_beats,
        "beats of a result": rate.result_beats,
        "task bits used": f"{100 * rate.used_in:.0f} %",
        "result bits used": f"{100 * rate.used_out:.0f} %",
        "cycles": rate.cycles,
        "simulated": round(run.counters["cycles"] / args.states, 3),
        "million tasks/s": round(rate.per_second / 1e6, 1),
        "wrong entries": wrong,
        "LUTs": needs and needs.luts,
        "flip-flops": needs and needs.ffs,
        **host_times(board.wrapped, states, run.results, args.states),
    }


def host_times(wrapped, states, results, count):
    """Microseconds of a task to write it into a buffer, and to read its result."""
    given = np.zeros((count, wrapped.tasks.size), np.uint8)
    found = np.zeros((count, wrapped.results.size), np.uint8)
    wrapped.results.encode(results, found)
    return {
        "encode, us": median_time(lambda: wrapped.tasks.encode(states, given)) / count,
        "decode, us": median_time(lambda: wrapped.results.decode(found)) / count,
    }


def median_time(run):
    """Microseconds of processor time of a call."""
    times = []
    for _ in range(7):
        start = process_time()
        run()
        times.append(process_time() - start)
    return 1e6 * sorted(times)[3]


def main():
    args = options()
    found = []
    for row in rows(args):
        if not found:
            print(*row, sep=" | ")
        shown = [f"{x:.4g}" if isinstance(x, float) else x for x in row.values()]
        print(*shown, sep=" | ", flush=True)
        found.append(row)
    write_json(args.json, found)
    return int(any(row["wrong entries"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
