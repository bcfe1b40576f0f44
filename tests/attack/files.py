"""Mutated robot files: each must give a Model that can be used, or a ModelError of one line.

A case is made from its seed alone: a robot, mutations of its files, a way to pass them to `load`,
and options. Children with limits load it (see workers.py). Findings are saved as folders of files.
"""

import os
import pickle
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import featherlane as fl

from .mutate import mutated
from .robots import ROBOTS
from .workers import Death, Worker

LONGEST = 3000  # characters of a message
FORMS = ("path", "path", "text", "bytes")
OPTIONS = (
    *({}, {}, {"root": "free"}, {"root": "free-split"}, {"root": "planar"}, {"mimic": "keep"}),
    *({"joint_order": "breadth-first"}, {"joint_order": "file"}, {"loops": "drop"}),
    *({"loops": "keep"}, {"loops": "keep", "root": "free"}),
    *({"loops": "drop", "root": "fixed"}, {"root": "spherical", "mimic": "keep"}),
)
PRINTED = r"QH\d+ |WARNING: Must provide extension"  # by Qhull and MuJoCo, past our loader
SHRINKS = 150  # trials to make a finding smaller


class Case(NamedTuple):
    """The files of a robot, the main one first, and how they are loaded."""

    files: dict[str, bytes]
    form: str
    options: dict[str, str]


def case(seed):
    """Makes the case of a seed."""
    rng = random.Random(seed)
    # half of the cases are of URDF, and a tenth of robots that are bundled, which take longest
    if rng.random() < 0.1:
        name = rng.choice(fl.bundled())
        files = {f"{name}.urdf": fl.robot.loaders.xml_text(name)[0].decode()}
    else:
        files = rng.choice(ROBOTS + ROBOTS[:2] * 2)
    victims = [rng.choice(list(files)) for _ in range(rng.choice((1, 1, 2)))]
    spoiled = {n: mutated(rng, t) if n in victims else t.encode() for n, t in files.items()}
    return Case(spoiled, rng.choice(FORMS), rng.choice(OPTIONS))


# In the child


def prepare():
    """Imports what loading imports, and goes to a folder of traps."""
    sys.modules["xacrodoc"] = None  # xacro evaluates code, so that its files must be trusted
    os.chdir(tempfile.mkdtemp(prefix="attack-"))
    os.mkfifo("fifo.xml")
    os.mkfifo("fifo.obj")
    os.mkfifo("fifo.png")
    os.mkfifo("fifo")
    os.mkdir("folder.xml")
    for name in ("device.xml", "device.skn", "device.png"):
        os.symlink("/dev/zero", name)
    Path("self.xml").write_text(
        '<mujoco><asset><model name="x" file="self.xml"/></asset><worldbody>'
        '<attach model="x" prefix="p"/></worldbody></mujoco>'
    )
    with open("huge.xml", "wb") as file:
        file.truncate(1 << 33)
    for files in ROBOTS:
        with suppress(fl.ModelError):
            fl.load(_written(Case({n: t.encode() for n, t in files.items()}, "path", {})))
    fl.load("double_pendulum").neutral()
    warnings.simplefilter("error")


def _written(attack):
    for name, data in attack.files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(data)
    return Path(next(iter(attack.files)))


def check(item):
    """Returns what is wrong with the case of a seed, or with a Case; None if nothing is."""
    attack = case(item) if isinstance(item, int) else item
    before = set(os.listdir())
    try:
        return _complaint(attack)
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        return f"{type(error).__name__} at {place}: {str(error)[:300]}"
    finally:
        _tidied(attack, before)


def _tidied(attack, before):
    for name in attack.files:
        Path(name).unlink(missing_ok=True)
    left = set(os.listdir()) - before - {Path(name).parts[0] for name in attack.files}
    if left:
        raise RuntimeError(f"files were written: {sorted(left)}")


def _complaint(attack):
    main = _written(attack)
    source = next(iter(attack.files.values()))
    if attack.form == "path":
        source = main
    elif attack.form == "text":
        source = source.decode("utf-8", "surrogateescape")
        if not source.lstrip("\ufeff \t\r\n").startswith("<"):
            source = "<" + source
    try:
        model = fl.load(source, **attack.options)
    except fl.ModelError as error:
        return _message_fault(str(error))
    return _model_fault(model)


def _message_fault(message):
    if not message.isprintable():
        return "the message is not one printable line: " + repr(message[:300])
    return f"the message has {len(message)} characters" if len(message) > LONGEST else None


def _model_fault(model):
    """Uses the model in every way that needs no compiled code."""
    if not isinstance(model, fl.Model):
        return f"load returns a {type(model).__name__}"
    if model.neutral().shape != (model.nq,):
        return "neutral() has the wrong shape"
    model.random_configuration(2, seed=0)
    if max(map(len, str(model).splitlines())) > 100:
        return "the card is wider than 100 columns"
    if not repr(model).isprintable() or len(repr(model)) > LONGEST:
        return "repr is no printable line: " + repr(model)[:300]
    if pickle.loads(pickle.dumps(model)) != model or hash(model) is None:
        return "a pickled model is another one"
    return None


# In the parent


class Findings:
    """What was found, each kind once with its smallest case."""

    def __init__(self, folder):
        self.folder, self.kinds, self.count = folder, {}, 0

    def add(self, seed, result, worker):
        self.count += 1
        text = " ".join(result) if isinstance(result, Death) else result
        kind = re.sub(r"0x[0-9a-f]+|[\d.]+ s|'[^']*'", "", text)[:120]
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if self.kinds[kind] > 1:
            print(f"seed {seed}: again {text[:600]}", flush=True)
            return
        folder = self.folder / f"{seed}"
        attack = case(seed)
        told = f"seed {seed}: {attack.form}, {attack.options}: {text}"
        print(told[:1500], f"\n    saved in {folder}", flush=True)
        attack = shrunk(worker, attack, result)
        for name, data in attack.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        (folder / "finding.txt").write_text(told)


def same(result, other):
    if isinstance(result, Death) or isinstance(other, Death):
        return isinstance(other, Death) and isinstance(result, Death)
    return other is not None and other[:25] == result[:25]


def shrunk(worker, attack, result):
    """Takes tokens out of the files as long as the same is found."""
    trials = (
        SHRINKS if not isinstance(result, Death) or "SIGXCPU" in result.reason else SHRINKS // 10
    )
    for name in attack.files:
        tokens = re.findall(rb"<[^>]*>|[^<]+|<", attack.files[name])
        size = len(tokens) // 2
        while size and trials > 0:
            at = 0
            while at < len(tokens) and trials > 0:
                fewer = tokens[:at] + tokens[at + size :]
                smaller = attack._replace(files=attack.files | {name: b"".join(fewer)})
                trials -= 1
                _, found = next(worker.results([smaller]))
                if same(result, found):
                    tokens, attack = fewer, smaller
                else:
                    at += size
            size //= 2
    return attack


def add_arguments(parser):
    parser.add_argument("--seed", type=int, default=0, help="the first case (default 0)")
    parser.add_argument("--count", type=int, default=1000, help="how many cases (default 1000)")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--out", type=Path, help="folder for findings (default: a new one)")


def run(arguments):
    """Runs the cases; prints findings and a line for log.md; returns the number of findings."""
    folder = arguments.out or Path(tempfile.mkdtemp(prefix="attack-findings-"))
    end = time.monotonic() + 60 * (arguments.minutes or 1e9)
    begin, done, findings = time.monotonic(), 0, Findings(folder)
    worker = Worker(check, prepare, PRINTED)
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    for seed, result in worker.results(seeds):
        done += 1
        if result is not None:
            findings.add(seed, result, worker)
        if done % 5000 == 0:
            rate = 60 * done / (time.monotonic() - begin)
            print(f"{done} files, {findings.count} findings, {rate:.0f} files/min", flush=True)
        if time.monotonic() > end:
            break
    worker.stop()
    for kind, count in findings.kinds.items():
        print(f"{count:6} times: {kind}")
    last = arguments.seed + done - 1
    today = time.strftime("%Y-%m-%d")
    print(f"| {today} | files | {arguments.seed} to {last} | {done:,} | {findings.count} |")
    if not findings.count and arguments.out is None:
        shutil.rmtree(folder)
    return findings.count
