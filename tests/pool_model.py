"""A model checker of the thread pool, which runs the LLVM IR of `pool_ir` itself.

Threads run one at a time, from each access to a shared atomic word, or call of a lock's function,
to the next one; every order of these steps is explored, depth first, and each state once. Plain
accesses are part of the step before them. That loses no behaviour as long as plain accesses do not
race, and whether they do is checked for C11's happens-before, by the orderings in the text.

What is modelled in Python is the rest of the world: locks, the loop (it marks its states as
computed) and threads that call. With `weak`, an atomic load may also read older values, as far as
coherence, happens-before and seq_cst allow: release and acquire with views, in which x86's store
buffers are one case. Neither out-of-thin-air values nor loads before earlier stores are in it.
"""

from __future__ import annotations

import re
from collections import namedtuple

from featherlane.backends.cpu.threads import pool_ir
from featherlane.backends.cpu.threads.pool_ir import (
    CLOSED,
    LINE_WORDS,
    WORKERS,
    SharedTask,
    WorkerWords,
    pool_word,
)

BITS = (1 << 64) - 1
SYNC = ("load", "store", "rmw", "cas")  # kinds of atomic accesses

# The text

_ARITHMETIC = {
    "add": lambda a, b: a + b & BITS,
    "sub": lambda a, b: a - b & BITS,
    "mul": lambda a, b: a * b & BITS,
    "udiv": lambda a, b: a // b,
    "shl": lambda a, b: a << b & BITS,
    "lshr": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "umin": min,
    "umax": max,
}
_TESTS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "ugt": lambda a, b: a > b,
    "uge": lambda a, b: a >= b,
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
}
_D, _T, _V = r"(?:(%\S+) = )?", r"(?:ptr|i64|i32|i1|i8)", r"([^\s,()]+)"
_ORDER = r"(monotonic|acquire|release|acq_rel|seq_cst)"
_PATTERNS = [
    ("element", rf"{_D}getelementptr inbounds {_T[:-1]}|ptr), ptr {_V}, i64 {_V}"),
    ("load", rf"{_D}load atomic {_T}, ptr {_V} {_ORDER}, align 8"),
    ("store", rf"{_D}store atomic {_T} {_V}, ptr {_V} {_ORDER}, align 8"),
    ("rmw", rf"{_D}atomicrmw (\w+) ptr {_V}, i64 {_V} {_ORDER}"),
    ("cas", rf"{_D}cmpxchg ptr {_V}, i64 {_V}, i64 {_V} {_ORDER} {_ORDER}"),
    ("read", rf"{_D}load {_T}, ptr {_V}, align 8"),
    ("write", rf"{_D}store {_T} {_V}, ptr {_V}, align 8"),
    ("won", rf"{_D}extractvalue \{{ i64, i1 \}} {_V}, 1"),
    ("test", rf"{_D}icmp (\w+) {_T} {_V}, {_V}"),
    ("binary", rf"{_D}(add|sub|mul|udiv|shl|lshr|and|or) {_T} {_V}, {_V}"),
    ("binary", rf"{_D}call i64 @llvm\.(umin|umax)\.i64\(i64 {_V}, i64 {_V}\)"),
    ("pause", rf"{_D}call void @llvm\.(?:x86\.sse2\.pause|aarch64\.hint)\(.*\)"),
    ("call", rf"{_D}call (?:void|{_T}) ([@%]\w+)\((.*)\)"),
    ("alloca", rf"{_D}alloca {_T}(?:, i64 {_V})?"),
    ("choose", rf"{_D}phi {_T} (.*)"),
    ("branch", rf"{_D}br i1 {_V}, label %{_V}, label %{_V}"),
    ("go", rf"{_D}br label %{_V}"),
    ("return", rf"{_D}ret (?:void|{_T} {_V})"),
]
_PATTERNS[0] = ("element", rf"{_D}getelementptr inbounds (ptr|i64|i8), ptr {_V}, i64 {_V}")
_COMPILED = [(kind, re.compile(pattern)) for kind, pattern in _PATTERNS]
Instruction = namedtuple("Instruction", "kind result words")


def _operand(word):
    if word is None or word.startswith(("%", "@")):
        return word
    return (
        {"null": 0, "true": 1, "false": 0}.get(word)
        if not word.lstrip("-").isdigit()
        else int(word)
    )


def _instruction(line):
    """An instruction with its operands: numbers, or names that begin with %."""
    for kind, pattern in _COMPILED:
        if match := pattern.fullmatch(line):
            result, *words = match.groups()
            if kind == "call":
                given = [w.split()[-1] for w in words[1].split(", ")] if words[1] else []
                return Instruction(kind, result, (words[0], *map(_operand, given)))
            if kind == "choose":
                pairs = re.findall(rf"\[ {_V}, %{_V} \]", words[0])
                return Instruction(kind, result, tuple((_operand(v), b) for v, b in pairs))
            named = kind in ("go",)
            return Instruction(kind, result, tuple(words if named else _operands(kind, words)))
    raise ValueError(f"the model does not know the instruction {line!r}")


def _operands(kind, words):
    """The words of an instruction; orderings, operations and labels stay as they are."""
    text = {"element": (0,), "load": (1,), "store": (2,), "rmw": (0, 3), "cas": (3, 4)}
    text |= {"test": (0,), "binary": (0,), "branch": (1, 2)}
    return [w if k in text.get(kind, ()) else _operand(w) for k, w in enumerate(words)]


class Code:
    """A function of the text. blocks: instructions by label; first: the label of the first block;
    live: by label, the registers that each instruction and those behind it may read.
    """

    def __init__(self, header, lines):
        self.name, given = re.search(r"@(\w+)\((.*)\)", header).groups()
        self.parameters = [word.split()[-1] for word in given.split(", ")]
        self.blocks, label = {}, "%first"
        for line in lines:
            if match := re.fullmatch(r"(\S+):", line):
                label = match[1]
            else:
                self.blocks.setdefault(label, []).append(_instruction(line))
        self.first = next(iter(self.blocks))
        self.live = self._liveness()

    def _liveness(self):
        live = {label: [frozenset()] * (len(b) + 1) for label, b in self.blocks.items()}
        changed = True
        while changed:
            changed = False
            for label, block in self.blocks.items():
                now = [*live[label]]
                now[-1] = frozenset().union(*(self._into(label, to, live) for to in _next(block)))
                for k in reversed(range(len(block))):
                    now[k] = now[k + 1] - {block[k].result} | _reads(block[k])
                changed |= now != live[label]
                live[label] = now
        return live

    def _into(self, label, to, live):
        """What the block `to` reads if it is entered from `label`."""
        chosen = {
            v for i in self.blocks[to] if i.kind == "choose" for v, b in i.words if b == label
        }
        return live[to][0] | {v for v in chosen if isinstance(v, str)}


def _next(block):
    last = block[-1]
    return {"branch": last.words[1:], "go": last.words}.get(last.kind, ())


def _reads(instruction):
    if instruction.kind in ("choose", "go"):
        return frozenset()
    words = instruction.words
    return frozenset(w for w in words if isinstance(w, str) and w.startswith("%"))


def functions(text):
    """The functions of LLVM IR, by name."""
    text = re.sub(r";.*", "", text)
    text = re.sub(r"\],\s*\n\s*\[", "], [", text)  # a phi on two lines
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found, start = {}, 0
    for k, line in enumerate(lines):
        if line.startswith("define"):
            start = k
        elif line == "}":
            code = Code(lines[start], lines[start + 1 : k])
            found[code.name] = code
    return found


def atomics(text):
    """The atomic instructions of each function in order: (kind, orderings)."""
    return {
        name: [
            " ".join([i.kind, *(w for w in i.words if isinstance(w, str) and w[0] not in "%@")])
            for block in code.blocks.values()
            for i in block
            if i.kind in SYNC
        ]
        for name, code in functions(text).items()
    }


# The world

POOL, FRAMES, DATA, PRIVATE = 1 << 20, 1 << 24, 1 << 30, 1 << 40
LOOP, ACQUIRE, RELEASE, DONE = 1, 2, 3, 4  # addresses of functions, and of the lock `done`
OF_A_CALL = ("task", "args", "dims", "steps", "threads")  # plain words that each call writes
FRAME = 1 << 12  # bytes of what a caller lends: its task, args, dims and steps, a quarter each
LAST = "end"
Call = namedtuple("Call", "states threads part width each cold", defaults=(1, 1, 1, 0))
DISMISS = "dismiss"


class Wrong(Exception):
    """A property that does not hold. trace: the steps that lead there."""


def _address(name):
    return POOL + 8 * pool_word(name)


def _worker(k, name="asleep"):
    return POOL + 8 * (WORKERS + LINE_WORDS * k + WorkerWords._fields.index(name))


def _lock(k):
    return 16 + k


Op = namedtuple("Op", "kind place value order function")
# What a thread does between two steps: it ends with `op`; whether it read or wrote the words of a
# call, what these are then, whose frames it read, and which states it computed
Segment = namedtuple("Segment", "local op read words frames computed")


class Local:
    """Runs one thread from one step to the next; equal runs are run once."""

    def __init__(self, code, calls, workers, watch, spins):
        self.code, self.calls = code, calls
        self.constant = {
            _address("size"): workers,
            _address("spins"): spins,
            _address("done"): DONE,
            _address("acquire"): ACQUIRE,
            _address("release"): RELEASE,
        }
        for k in range(workers):
            self.constant |= {_worker(k, "lock"): _lock(k), _worker(k, "watch"): watch}
        self.words = [_address(name) for name in OF_A_CALL]
        self.sync = {POOL, *map(_address, ("busy", "next", "claimed", "stop"))}
        self.sync |= {_worker(k) for k in range(workers)}
        self.frames = {}
        for n, call in enumerate(calls):
            self.frames |= self._frame(n, call)
        self.known = {}

    @staticmethod
    def _frame(n, call):
        task = SharedTask(LOOP, 1, POOL, call.width, call.part, call.each, call.cold, call.threads)
        start, quarter = FRAMES + FRAME * n, FRAME // 4
        records = [*task], [DATA * (n + 1)], [call.states], [1]
        return {
            start + quarter * k + 8 * i: word
            for k, record in enumerate(records)
            for i, word in enumerate(record)
        }

    def start(self, name, arguments):
        """The state of a thread before a function's first instruction."""
        code = self.code[name]
        registers = tuple(zip(code.parameters, arguments, strict=True))
        return ((name, code.first, 0, registers),), ()

    def share(self, n):
        frame = FRAMES + FRAME * n
        return self.start("share", [frame + FRAME // 4 * k for k in (1, 2, 3, 0)])

    def run(self, local, value, words):
        key = local, value, words
        if key not in self.known:
            self.known[key] = _Run(self, local, words).until_step(value)
        return self.known[key]


class _Run:
    """One run of `Local`."""

    def __init__(self, world, local, words):
        self.world, (self.stack, memory) = world, local
        self.memory, self.words = dict(memory), dict(zip(world.words, words, strict=True))
        self.read, self.wrote, self.frames, self.computed = False, False, set(), []
        self._resume()

    def _resume(self):
        *self.callers, (self.name, self.label, self.at, registers) = self.stack
        self.registers = dict(registers)

    def until_step(self, value):
        code = self.world.code[self.name]
        if value is not None and code.blocks[self.label][self.at - 1].result:
            self.registers[code.blocks[self.label][self.at - 1].result] = value
        op = None
        while op is None:
            block = self.world.code[self.name].blocks[self.label]
            instruction = block[self.at]
            self.at += 1
            op = getattr(self, f"_{instruction.kind}")(instruction)
        words = tuple(self.words[place] for place in self.world.words)
        local = (), ()
        if op.kind != LAST:
            local = (*self.callers, self._here()), tuple(sorted(self.memory.items()))
        kind = "write" if self.wrote else "read" if self.read else None
        return Segment(local, op, kind, words, tuple(self.frames), tuple(self.computed))

    def _here(self):
        """The innermost function with the registers that it may still read."""
        live = self.world.code[self.name].live[self.label][self.at]
        kept = sorted((r, x) for r, x in self.registers.items() if r in live)
        return self.name, self.label, self.at, tuple(kept)

    def _of(self, word):
        return self.registers[word] if isinstance(word, str) else word

    def _set(self, instruction, value):
        self.registers[instruction.result] = value

    # Instructions; those that are steps return an Op

    def _element(self, i):
        kind, base, index = i.words
        self._set(i, self._of(base) + (1 if kind == "i8" else 8) * self._of(index))

    def _test(self, i):
        test, a, b = i.words
        self._set(i, int(_TESTS[test](self._of(a), self._of(b))))

    def _binary(self, i):
        operation, a, b = i.words
        self._set(i, _ARITHMETIC[operation](self._of(a), self._of(b)))

    def _won(self, i):
        self._set(i, self._of(i.words[0]))

    def _pause(self, i):
        pass

    def _alloca(self, i):
        self._set(i, PRIVATE + (len(self.callers) << 20) + (self.at << 10))

    def _read(self, i):
        place = self._of(i.words[0])
        self._set(i, self._plain(place))

    def _plain(self, place):
        if place >= PRIVATE:
            return self.memory[place]
        if place in self.words:
            self.read = True
            return self.words[place]
        if place in self.world.frames:
            self.frames.add((place - FRAMES) // FRAME)
            return self.world.frames[place]
        if place not in self.world.constant:
            raise Wrong(f"@{self.name} reads {place:#x}, where nothing is")
        return self.world.constant[place]

    def _write(self, i):
        value, place = map(self._of, i.words)
        if place >= PRIVATE:
            self.memory[place] = value
        elif place in self.words:
            self.wrote, self.words[place] = True, value
        elif place in self.world.sync:  # a plain store to an atomic word: a step, and a write
            self.wrote = True
            return Op("store", place, value, "plain", self.name)
        else:
            raise Wrong(f"@{self.name} writes to {place:#x}")
        return None

    def _load(self, i):
        place, order = i.words
        return Op("load", self._of(place), None, order, self.name)

    def _store(self, i):
        value, place, order = i.words
        return Op("store", self._of(place), self._of(value), order, self.name)

    def _rmw(self, i):
        operation, place, value, order = i.words
        return Op("rmw", self._of(place), (operation, self._of(value)), order, self.name)

    def _cas(self, i):
        place, expected, new, order, failed = i.words
        values = self._of(expected), self._of(new)
        return Op("cas", self._of(place), values, (order, failed), self.name)

    def _call(self, i):
        name, *given = i.words
        arguments = [self._of(word) for word in given]
        if name.startswith("@"):
            code = self.world.code[name[1:]]
            self.callers.append(self._here())
            self.name, self.label, self.at = code.name, code.first, 0
            self.registers = dict(zip(code.parameters, arguments, strict=True))
            return None
        function = self._of(name)
        if function == LOOP:
            return self._compute(*arguments)
        return Op({ACQUIRE: "acquire", RELEASE: "release"}[function], arguments[0], None, "", name)

    def _compute(self, args, dims, steps, data):
        first, count = self._plain(args), self._plain(dims)
        self._plain(steps)
        self.computed.append((first // DATA - 1, first % DATA, count))
        self.memory = {}

    def _return(self, i):
        value = None if i.words[0] is None else self._of(i.words[0])
        depth = len(self.callers)
        self.memory = {p: x for p, x in self.memory.items() if p - PRIVATE >> 20 < depth}
        if not self.callers:
            return Op(LAST, None, value, "", self.name)
        *self.callers, (self.name, self.label, self.at, registers) = self.callers
        self.registers = dict(registers)
        call = self.world.code[self.name].blocks[self.label][self.at - 1]
        if call.result:
            self._set(call, value)
        return None

    def _go(self, i):
        self._jump(i.words[0])

    def _branch(self, i):
        test, yes, no = i.words
        self._jump(yes if self._of(test) else no)

    def _jump(self, label):
        """Goes to a block, where values are chosen by the block that it comes from."""
        block = self.world.code[self.name].blocks[label]
        chosen = {}
        for k in block:
            if k.kind == "choose":
                (word,) = [v for v, origin in k.words if origin == self.label]
                chosen[k.result] = self._of(word)
        self.registers |= chosen
        self.label, self.at = label, len(chosen)


# Schedules

# item: where it is in its script; slot: of the word that its step is about, in a state; waits:
# whether it needs a lock; alone: whether its step commutes with all that others can do before it
Thread = namedtuple("Thread", "local op frames item slot waits alone")
_ACQUIRES, _RELEASES = ("acquire", "acq_rel", "seq_cst"), ("release", "acq_rel", "seq_cst")


class Model:
    """Callers and workers, one step at a time. callers: what each does in turn, numbers of `calls`
    or DISMISS.

    A state is a tuple: for each thread the number of its `Thread`, 0 at its end; the values of the
    atomic words; the locks that are free; the states that each call has computed, as bits; the
    number of the words of the call; the calls that have returned, and the workers that were found
    awake in this one, as bits; and what each thread, word and lock knows of accesses to the words
    of the call, as bits: the last read of each thread, and the last write.
    """

    def __init__(self, calls, callers, workers, *, text=None, watch=0, spins=0):
        self.calls, self.scripts, self.workers = calls, callers, workers
        self.local = Local(functions(text or pool_ir.source()), calls, workers, watch, spins)
        self.size = n = len(callers) + workers
        words = ("gate", "busy", "next", "claimed", "stop")
        places = [*map(_address, words), *map(_worker, range(workers))]
        self.number = {place: n + k for k, place in enumerate(places)}
        self.gate, self.busy, self.next, self.claimed, self.stop = range(n, n + 5)
        self.asleep = n + 5
        self.locks = n + len(places)
        self.number |= {DONE: self.locks} | {_lock(k): self.locks + 1 + k for k in range(workers)}
        self.computed = self.locks + 1 + workers
        self.words = self.computed + len(calls)
        self.over, self.passed, self.masks = range(self.words + 1, self.words + 4)
        self.write, self.all = 1 << n, (1 << n + 1) - 1
        self.stops = any(DISMISS in script for script in callers)
        self.threads, self.numbers = [None], {}
        self.word_sets, self.runs = [], {}
        self.steps = 0

    # What is numbered

    def _thread(self, local, op, frames, item):
        key = local, op, frames, item
        if key not in self.numbers:
            self.numbers[key] = len(self.threads)
            about = self._slot(op), op and op.kind == "acquire", op and self._commutes(op)
            self.threads.append(Thread(*key, *about))
        return self.numbers[key]

    def _slot(self, op):
        if op is None or op.kind == LAST:
            return None
        if op.place not in self.number:
            raise Wrong(f"@{op.function} has an atomic access to {op.place:#x}, where nothing is")
        return self.number[op.place]

    def _word_set(self, words):
        if words not in self.word_sets:
            self.word_sets.append(words)
        return self.word_sets.index(words)

    # Threads

    def initial(self):
        state = [0] * self.masks + [self.all] * self.computed
        state[self.words] = self._word_set((0,) * len(OF_A_CALL))
        for t in range(self.size):
            self._begin(state, t, 0)
        return tuple(state)

    def _begin(self, state, t, item):
        """Thread t begins what its script says next."""
        worker = t - len(self.scripts)
        local = None
        if worker >= 0:
            local = None if item else self.local.start("serve", [POOL, worker])
        elif item < len(self.scripts[t]):
            call = self.scripts[t][item]
            local = self.local.start(call, [POOL]) if call == DISMISS else self.local.share(call)
        if local is None:
            state[t], state[self.masks + t] = 0, self.all
        else:
            self._run(state, t, self._thread(local, None, (), item), None)

    def _run(self, state, t, thread, value):
        """Thread t runs to its next step."""
        key = thread, value, state[self.words]
        if key not in self.runs:
            local, item = self.threads[thread].local, self.threads[thread].item
            found = self.local.run(local, value, self.word_sets[state[self.words]])
            number = self._thread(found.local, found.op, found.frames, item)
            self.runs[key] = number, found.read, self._word_set(found.words), found.computed
        state[t], access, state[self.words], computed = self.runs[key]
        if access:
            self._access(state, t, access)
        for call, first, count in computed:
            new = ((1 << count) - 1) << first
            if state[self.computed + call] & new:
                raise Wrong(f"a state of call {call} is computed twice")
            state[self.computed + call] |= new

    def _access(self, state, t, kind):
        """Thread t reads or writes the words of a call: it knows of all that must come before, and
        nobody else knows of this access yet.
        """
        mine = state[self.masks + t]
        if not mine & self.write or (kind == "write" and mine != self.all):
            raise Wrong(f"a race: a {kind} of thread {t} is not ordered behind another access")
        lost, gained = (1 << t, 0) if kind == "read" else (self.write, self.write - 1)
        for k in self._masks():
            state[k] = state[k] & ~lost | gained
        state[self.masks + t] |= lost

    def _masks(self):
        return range(self.masks, self.masks + self.computed)

    def _learn(self, state, t, mask):
        """Thread t acquires what a word says of accesses."""
        state[self.masks + t] |= mask

    def _forget(self, state, t):
        """A worker outside needs to know nothing: what it needs, it learns as it enters."""
        if t >= len(self.scripts):
            state[self.masks + t] &= 1 << t

    def _said(self, k, mask):
        """What a word or a lock says of a mask: only these must, for the protocol to hold."""
        return mask if k in (self.gate, self.busy, self.locks) else 0

    # Steps

    def successors(self, state):
        """(step, next state) for each step that can be taken; only one if it commutes with all
        that other threads can do before it.
        """
        able = []
        for t in range(self.size):
            thread = self.threads[state[t]]
            if thread and not (thread.waits and self._value(state, thread.slot) != 1):
                able.append(t)
                if thread.alone or self._is_exhausted(state, thread):
                    able = [t]
                    break
        for t in able:
            thread = self.threads[state[t]]
            for n in thread.frames:
                if state[self.over] >> n & 1:
                    raise Wrong(f"thread {t} reads what call {n} lent, which has returned")
            for value, after in self._effects([*state], t, thread):
                self._note_passed(after, thread.op, value)
                if thread.op.kind == LAST:
                    self._end(after, t, thread.item)
                else:
                    self._run(after, t, state[t], value)
                self._check_sleepers(after)
                yield (t, thread.op, value), tuple(self._canonical(after))

    def _canonical(self, state):
        return state

    def _commutes(self, op):
        """One thread waits for each lock. The end of a call comes too early for nobody but those
        who must not read what it lent any more. Plain stores race, or one thread sees them.
        """
        if op.kind in (LAST, "acquire", "release") or op.order == "plain":
            return True
        k = self.number[op.place]
        if k == self.busy:
            return len(self.scripts) == 1
        if op.function == "wanted" and k == self.asleep:
            return not any(call.cold for call in self.calls)  # what is read is not used
        return k == self.stop and not self.stops

    def _is_exhausted(self, state, thread):
        """Whether a thread looks for workers to wake or states to claim where none are left: the
        counters only grow while it is inside.
        """
        if thread.op.kind != "load" or thread.slot not in (self.next, self.claimed):
            return False
        words = self.word_sets[state[self.words]]
        call = self.calls[words[0] // FRAME - FRAMES // FRAME]
        wanted = words[-1] - 1 if thread.slot == self.next else call.states
        return self._value(state, thread.slot) >= wanted

    def _end(self, state, t, item):
        if t < len(self.scripts) and (n := self.scripts[t][item]) != DISMISS:
            if state[self.computed + n] != (1 << self.calls[n].states) - 1:
                raise Wrong(f"call {n} returns before all its states are computed")
            state[self.over] |= 1 << n
        self._begin(state, t, item + 1)

    def _effects(self, state, t, thread):
        """(the value that a thread gets, the state) for each way in which a step can go."""
        op, k = thread.op, thread.slot
        if op.kind == LAST:
            return [(None, state)]
        if op.kind in ("acquire", "release"):
            return self._lock(state, t, k, op)
        if op.kind == "load":
            return self._loads(state, t, k, op.order)
        if op.kind == "store":
            if k == self.busy and state[self.masks + t] != self.all:
                raise Wrong("a call ends that does not know of all that was done for it")
            return [(None, self._store(state, t, k, op.value, op.order))]
        latest = self._value(state, k)
        if op.kind == "rmw":
            name, operand = op.value
            new = _ARITHMETIC[name](latest, operand)
            return [(latest, self._modify(state, t, k, new, op.order))]
        (expected, new), (order, failed) = op.value, op.order
        found = self._loads([*state], t, k, failed)
        lost = [(0, after) for value, after in found if value != expected]
        if latest == expected:
            if k == self.gate:
                self._forget(state, t)
            lost.append((1, self._modify(state, t, k, new, order)))
        return lost

    def _lock(self, state, t, k, op):
        if op.kind == "release":
            if self._value(state, k):
                raise Wrong(f"thread {t} releases a lock that is free")
            return [(None, self._modify(state, t, k, 1, "release"))]
        return [(1, self._modify(state, t, k, 0, "acquire"))]

    # Memory: each access sees the last store

    def _value(self, state, k):
        return state[k]

    def _loads(self, state, t, k, order):
        if order in _ACQUIRES:
            self._learn(state, t, state[self.masks + k])
        return [(state[k], state)]

    def _store(self, state, t, k, value, order):
        state[k] = value
        mask = state[self.masks + t] if order in _RELEASES else 0
        state[self.masks + k] = self._said(k, mask)
        if k >= self.asleep:
            self._forget(state, t)
        return state

    def _modify(self, state, t, k, value, order):
        state[k], mine, its = value, self.masks + t, self.masks + k
        if order in _ACQUIRES:
            self._learn(state, t, state[its])
        if order in _RELEASES:  # else the release sequence goes on
            state[its] |= self._said(k, state[mine])
        return state

    # Properties

    def _note_passed(self, state, op, value):
        """Notes which workers a caller has found awake, in this call."""
        if op.kind == "store" and op.place == POOL:
            state[self.passed] = 0
        if op.function == "wake" and op.kind == "load" and value == 0:
            worker = self.number[op.place] - self.asleep
            if worker >= 0:
                state[self.passed] |= 1 << worker

    def _check_sleepers(self, state):
        if not state[self.passed] or self._value(state, self.gate) <= CLOSED:
            return
        for k in range(self.workers):
            thread = self.threads[state[len(self.scripts) + k]]
            lies = thread and thread.op.kind == "acquire"
            if lies and state[self.passed] >> k & 1 and self._value(state, self.asleep + k):
                raise Wrong(f"worker {k} was thought awake, and sleeps through a call")

    def check_end(self, state):
        """A state in which no thread can go on."""
        if any(state[: len(self.scripts)]):
            raise Wrong("a caller waits for ever")
        workers = [self.threads[n] for n in state[len(self.scripts) : self.size]]
        if self.stops and any(workers):
            raise Wrong("a dismissed worker sleeps for ever")
        if not self.stops and not all(w and w.op.kind == "acquire" for w in workers):
            raise Wrong("a worker has ended, though the pool was not stopped")
        if self._value(state, self.gate) or self._value(state, self.busy):
            raise Wrong("the pool is not left free, with its gate closed")

    def _bounded(self, node):
        """(step, next node) where a node has a state, the thread that ran last, and how often
        another one may still take its place while it could go on.
        """
        state, last, left = node
        taken = [*self.successors(state)]
        able = any(t == last for (t, *_), _ in taken)
        for step, after in taken:
            switched = able and step[0] != last
            if left - switched >= 0:
                moved_on = last if len(taken) == 1 and not able else step[0]
                yield step, (after, moved_on, left - switched)

    def explore(self, switches=None, most=10_000_000):
        """Tries every schedule, or those with so many switches from a thread that could go on, and
        returns the number of states. Raises Wrong, with the `trace` of the steps that lead there.
        """
        start, ways = self.initial(), self.successors
        if switches is not None:
            start, ways = (start, 0, switches), self._bounded
        seen, path, moved = {start: True}, [(ways(start), start, None)], [False]
        try:
            while path:
                found = next(path[-1][0], None)
                if found is None:
                    _, state, _ = path.pop()
                    if not moved.pop():
                        self.check_end(state if switches is None else state[0])
                    seen[state] = False  # no longer on the path
                    continue
                taken, after = found
                moved[-1] = True
                self.steps += 1
                if after in seen:
                    if seen[after]:
                        raise Wrong("threads can go round for ever")
                    continue
                if len(seen) == most:
                    raise RuntimeError(f"more than {most} states")
                seen[after] = True
                path.append((ways(after), after, taken))
                moved.append(False)
        except Wrong as wrong:
            wrong.trace = [step for _, _, step in path[1:]]
            raise
        return len(seen)


class WeakModel(Model):
    """The same where a load may read an older value than the last one, as far as coherence, what
    its thread has acquired, and seq_cst stores (for seq_cst loads) allow. Races are `Model`'s.

    The slot of a word holds its messages, (value, view) each: what it says to those who acquire it.
    A view has the oldest message of each word that may still be read; behind the masks lie the
    threads' views, and the number of the last seq_cst store to each word.
    """

    def initial(self):
        words = self.computed - self.size  # and locks
        self.views = self.masks + self.computed
        self.sc = self.views + self.size
        self.nothing = (0,) * words
        state = [*super().initial()]
        for k in range(self.size, self.computed):
            state[k] = ((0, self.nothing),)
        return (*state, *[self.nothing] * self.size, self.nothing)

    def _access(self, state, t, kind):
        pass

    def _forget(self, state, t):
        pass

    def _value(self, state, k):
        return state[k][-1][0]

    def _loads(self, state, t, k, order):
        word, found = k - self.size, []
        least = state[self.views + t][word]
        if order == "seq_cst":
            least = max(least, state[self.sc][word])
        for n in range(least, len(state[k])):
            after = [*state]
            value, view = state[k][n]
            after[self.views + t] = _put(state[self.views + t], word, n)
            if order in _ACQUIRES:
                self._learn(after, t, view)
            found.append((value, after))
        return found

    def _learn(self, state, t, view):
        state[self.views + t] = tuple(map(max, state[self.views + t], view))

    def _store(self, state, t, k, value, order):
        return self._append(state, t, k, value, order, self.nothing)

    def _modify(self, state, t, k, value, order):
        before = state[k][-1][1]
        if order in _ACQUIRES:
            self._learn(state, t, before)
        return self._append(state, t, k, value, order, before)

    def _append(self, state, t, k, value, order, view):
        """Stores behind all other messages. view: what a release sequence says already."""
        word, n = k - self.size, len(state[k])
        state[self.views + t] = _put(state[self.views + t], word, n)
        if order in _RELEASES:
            view = tuple(map(max, view, state[self.views + t]))
        state[k] = (*state[k], (value, view))
        if order == "seq_cst":
            state[self.sc] = _put(state[self.sc], word, n)
        return state

    def _canonical(self, state):
        """Without messages that no thread can read any more."""
        last = tuple(len(state[k]) - 1 for k in range(self.size, self.computed))
        views = range(self.views, self.sc)
        live = [state[self.views + t] for t in range(self.size) if state[t]]
        base = tuple(map(min, last, last, *live))
        if not any(base):
            return state
        for k, view in zip(views, [state[k] for k in views], strict=True):
            state[k] = _cut(view if state[k - self.views] else last, base)
        state[self.sc] = _cut(state[self.sc], base)
        for word, n in enumerate(base):
            k = self.size + word
            state[k] = tuple((value, _cut(view, base)) for value, view in state[k][n:])
        return state


def _put(items, k, item):
    return (*items[:k], item, *items[k + 1 :])


def _cut(view, base):
    return tuple([n - b if n > b else 0 for n, b in zip(view, base, strict=True)])
