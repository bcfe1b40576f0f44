"""How many microseconds of the host does a state take behind a serial line? A port that answers at
once stands in for the board: what is left is the processor time of the driver, in all and by part,
beside the time of the state's frames on the line. `--against FOLDER` compares with another checkout
of the package, both in turns, each in a process.
"""

import os
import subprocess
import sys
from json import dumps, loads
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from options import parser, write_json

import featherlane as fl
from featherlane.backends.fpga.serial import frames
from featherlane.backends.fpga.serial.host import SerialDriver


def options():
    made = parser(__doc__, robots=["double_pendulum"], functions=set(fl.FUNCTIONS), json=None)
    made.add_argument("--interval", type=int, default=4, help="cycles (%(default)s)")
    made.add_argument("--board", default="ulx3s", help="a board (%(default)s)")
    made.add_argument("--states", type=int, nargs="+", default=[1, 100, 10_000])
    made.add_argument("--rounds", type=int, default=5, help="in which all take turns")
    made.add_argument("--against", metavar="FOLDER", help="another checkout, with which to compare")
    return made.parse_args()


class PromptPort:
    """A port behind which each task is answered at once, by a word of zeros."""

    def __init__(self, serial):
        plan, sizes = serial.plan, serial.plan.payloads
        known = {**plan._asdict(), "version": frames.VERSION, "under_way": 0}
        known |= dict.fromkeys(frames.COUNTERS, 0)
        fields = (known[name].to_bytes(size, "little") for name, size in frames.ANSWER.items())
        self.facts = frames.frame(frames.FACTS, b"".join(fields))
        self.task = 1 + sizes[frames.TASK] + frames.CRC_BYTES
        word = bytes(sizes[frames.RESULT] - 1)
        self.results = [frames.frame(frames.RESULT, n, word) for n in range(256)]
        self.answers = b""

    def write(self, data):
        tasks, rest = divmod(len(data), self.task)  # a query is shorter
        numbers = data[1 : tasks * self.task : self.task]
        self.answers += b"".join(map(self.results.__getitem__, numbers))
        if rest:
            self.answers += self.facts

    def read(self, count):
        data, self.answers = self.answers[:count], self.answers[count:]
        return data

    def quiet(self):
        self.answers = b""

    def close(self):
        pass


def cases(args):
    """The driver and states of each function of each robot."""
    for robot in args.robots:
        for function in args.functions or ["inverse_dynamics"]:
            model = fl.load(robot)
            made = fl.accelerator(model, function, interval=args.interval, board=args.board)
            yield robot, function, made


def microseconds(run, states, calls=0):
    """Processor time of a state, the median of some calls."""
    calls = calls or max(3, min(200, 20_000 // states))
    times = []
    for _ in range(calls):
        start = process_time()
        run()
        times.append(process_time() - start)
    return 1e6 * median(times) / states


def row(robot, function, made, states):
    serial = made.board_design.serial
    facts, device = serial.facts, SerialDriver(serial.facts, PromptPort(serial))
    inputs = made.samples(states)
    words = np.zeros((states, facts.tasks.size), np.uint8)
    facts.tasks.encode(inputs, words)
    numbers, results = np.arange(states) % 256, np.zeros((states, facts.results.size), np.uint8)
    call = microseconds(lambda: device(inputs), states)
    parts = {
        "encode, us": microseconds(lambda: facts.tasks.encode(inputs, words), states),
        "frames, us": microseconds(lambda: frames.task_frames(numbers, words), states),
        "decode, us": microseconds(lambda: facts.results.decode(results), states),
    }
    return {
        "robot": robot,
        "function": function,
        "states": states,
        "under way": serial.plan.outstanding,
        "call, us": call,
        **parts,
        "exchange and checks, us": call - sum(parts.values()),
        "line at 3 Mbaud, us": 10 * facts.longest_frame / 3.0,
    }


def rows(args):
    return [row(*case, n) for case in cases(args) for n in args.states]


def in_turns(args):
    """Rows of this checkout and of another one, the median of some rounds, one after the other."""
    here = Path(fl.__file__).parent.parent
    command = [sys.executable, __file__, *sys.argv[1:], "--rounds", "0"]
    rounds = {str(folder): [] for folder in (here, Path(args.against))}
    for _ in range(args.rounds):
        for folder, known in rounds.items():
            place = os.environ | {"PYTHONPATH": folder}
            done = subprocess.run(command, env=place, check=True, capture_output=True, text=True)
            known.append(loads(done.stdout))
    for folder, known in rounds.items():
        for same in zip(*known, strict=True):
            figures = {
                name: x if isinstance(x, str | int) else median(r[name] for r in same)
                for name, x in same[0].items()
            }
            yield {"checkout": "here" if folder == str(here) else "other", **figures}


def main():
    args = options()
    if not args.rounds:  # as a process of `in_turns`
        print(dumps(rows(args)))
        return 0
    lines = [*in_turns(args)] if args.against else rows(args)
    print(*lines[0], sep=" | ")
    for line in lines:
        print(*(f"{x:.3g}" if isinstance(x, float) else x for x in line.values()), sep=" | ")
    write_json(args.json, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
