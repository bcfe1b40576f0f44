"""Are the pipelines for FPGAs right? Each is simulated clock cycle by clock cycle from its
SystemVerilog, in Verilator and Icarus, back to back and with random stalls of both streams, and
every bit of every state is compared with the datapath in integers.
"""

import sys
from time import perf_counter

import numpy as np
from options import parser, write_json

import featherlane as fl
from featherlane.backends.fixed.evaluate import evaluate

ROBOTS = ["double_pendulum", "iiwa14", "hyq", "hyq:free"]
LARGE = ("inverse_dynamics", "forward_dynamics_derivatives_from")  # of robots beyond an arm
STALLS = 64  # of 256 cycles


def options():
    made = parser(__doc__, robots=ROBOTS, functions=set(fl.FUNCTIONS), json=None)
    made.add_argument("--interval", type=int, default=4, help="cycles (%(default)s)")
    made.add_argument("--format", default="q16.16", help="of numbers (%(default)s)")
    made.add_argument("--states", type=int, default=10_000, help="of each (%(default)s)")
    made.add_argument("--simulators", nargs="+", default=["verilator", "icarus"])
    return made.parse_args()


def rows(args):
    for text in args.robots:
        name, _, root = text.partition(":")
        model = fl.load(name, root=root or "fixed")
        for function in args.functions or (LARGE if name == "hyq" else fl.FUNCTIONS):
            made = fl.accelerator(
                model, function, interval=args.interval, format=args.format, sharing="module"
            )
            yield from simulated(made, text, function, args)


def simulated(made, robot, function, args):
    samples = made.samples(args.states)
    wanted = evaluate(made.function.datapath, samples).integers
    for simulator in args.simulators:
        for stalls in (0, STALLS):
            start = perf_counter()
            run = made.simulate(samples, simulator, stalls)
            wrong = np.zeros(args.states, bool)
            for name, x in wanted.items():
                wrong |= (x != run.outputs[name]).reshape(args.states, -1).any(1)
            yield {
                "robot": robot,
                "function": function,
                "format": args.format,
                "interval": args.interval,
                "latency": made.latency,
                "simulator": simulator,
                "stalls": stalls,
                "states": args.states,
                "wrong": int(wrong.sum()),
                "cycles of a state": f"{run.cycles.min()} to {run.cycles.max()}",
                "seconds": round(perf_counter() - start, 1),
            }


def main():
    args = options()
    found = []
    for row in rows(args):
        if not found:
            print(*row, sep=" | ")
        print(*row.values(), sep=" | ", flush=True)
        found.append(row)
    write_json(args.json, found)
    return int(any(row["wrong"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
