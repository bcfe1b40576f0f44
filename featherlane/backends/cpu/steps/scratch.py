"""Memory of recorded calls: one thread at a time has it, and it waits for the next call."""

from __future__ import annotations

# What the code finds in @work, which is filled in when it is loaded
FILLED = ("constants", "program", "end", "given", "results", "bytes", "start")
KEPT = 16  # memories that wait for the next call, one for each thread at a time

DECLARED = [
    f"@work = global [{len(FILLED)} x i64] zeroinitializer, align 8",
    f"@kept = internal global [{KEPT} x ptr] zeroinitializer, align 8",
    "declare ptr @scratch_new(i64)",
    "declare void @scratch_free(ptr)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
]
EACH = [  # of the places where memories wait
    "entry:",
    "br label %look",
    "look:",
    "%k = phi i64 [ 0, %entry ], [ %k1, %next ]",
    f"%at = getelementptr inbounds [{KEPT} x ptr], ptr @kept, i64 0, i64 %k",
]
FOUND = [
    "%found = atomicrmw xchg ptr %at, ptr null acq_rel",
    "%none = icmp eq ptr %found, null",
]


def word(name: str, kind: str, base: str, index: int) -> list[str]:
    """A number of a list, loaded."""
    return [
        f"%{name}.w = getelementptr inbounds i64, ptr {base}, i64 {index}",
        f"%{name} = load {kind}, ptr %{name}.w, align 8",
    ]


def filled(name: str, kind: str = "ptr") -> list[str]:
    """What @work has under a name, loaded."""
    return word(name, kind, "@work", FILLED.index(name))


def functions() -> list[str]:
    """@take and @give: a memory that nobody else has, which keeps what never changes in it; @forget
    frees those that wait.
    """
    return [*DECLARED, *_take(), *_give(), *_drop(), *_forget()]


def _on(behind: str) -> list[str]:
    """To the next of the places, or to the label behind the last one."""
    return [
        "next:",
        "%k1 = add i64 %k, 1",
        f"%more = icmp slt i64 %k1, {KEPT}",
        f"br i1 %more, label %look, label %{behind}",
    ]


def _take() -> list[str]:
    """One that waits, or a new one that begins with a line of the caches."""
    return [
        "define internal ptr @take() noinline {",
        *EACH,
        *FOUND,
        "br i1 %none, label %next, label %have",
        "have:",
        "ret ptr %found",
        *_on("make"),
        "make:",
        *filled("bytes", "i64"),
        *filled("start"),
        "%room = add i64 %bytes, 128",
        "%raw = call ptr @scratch_new(i64 %room)",
        "%address = ptrtoint ptr %raw to i64",
        "%up = add i64 %address, 127",
        "%line = and i64 %up, -64",
        "%new = inttoptr i64 %line to ptr",
        "%behind = getelementptr inbounds i8, ptr %new, i64 -8",
        "store ptr %raw, ptr %behind, align 8",
        "call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %start, i64 %bytes, i1 false)",
        "ret ptr %new",
        "}",
    ]


def _give() -> list[str]:
    """To the first free place, or back to the system."""
    return [
        "define internal void @give(ptr %memory) noinline {",
        *EACH,
        "%pair = cmpxchg ptr %at, ptr null, ptr %memory acq_rel monotonic",
        "%done = extractvalue { ptr, i1 } %pair, 1",
        "br i1 %done, label %leave, label %next",
        "leave:",
        "ret void",
        *_on("free"),
        "free:",
        "call void @drop(ptr %memory)",
        "ret void",
        "}",
    ]


def _drop() -> list[str]:
    return [
        "define internal void @drop(ptr %memory) noinline {",
        "%behind = getelementptr inbounds i8, ptr %memory, i64 -8",
        "%raw = load ptr, ptr %behind, align 8",
        "call void @scratch_free(ptr %raw)",
        "ret void",
        "}",
    ]


def _forget() -> list[str]:
    return [
        "define void @forget() {",
        *EACH,
        *FOUND,
        "br i1 %none, label %next, label %free",
        "free:",
        "call void @drop(ptr %found)",
        "br label %next",
        *_on("leave"),
        "leave:",
        "ret void",
        "}",
    ]
