"""The model card that `print(model)` shows: the robot, and the notes of its loader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite
from textwrap import wrap

from featherlane.api.stable_steps import StableSteps, stable_steps
from featherlane.robot.constraint_types import name_of
from featherlane.robot.geometry import dimensions
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.words import WARNING, counted
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Floats, Joint

WIDTH = 100
INDENT = "  "
GROUND = "(ground)"
NAME = 28  # characters of a body's name beside its frames; a longer one has another line
ROOT_TITLES = {
    "fixed": "the root link is the ground",
    "free-split": "a translation, then a spherical joint: six degrees of freedom",
    **{name: kind.root_title for name, kind in JOINT_TYPES.items()},
}
COLUMN_TITLES = ("", "joint", "type", "on body", "q", "v", "axis", "limits rad, m", "mass kg")
RIGHT_ALIGNED = (0, 4, 5, 8)
NAMES = (1, 3)  # the columns of joints and bodies, which share the width that the others leave
FOLDERS = re.compile(r"""(?<![\w.])(?:~|[A-Za-z]:)?(?:[/\\][^/\\\s'":,;]+)+[/\\](?=\w)""")
GROUPS = 20  # lists of frames, or of joints of the same physics
GROUP_LINES = 3  # of one list
AXES = 34  # characters of a joint's axes
FOLLOWERS = 40  # mimic joints, and loops, that are listed
FIGURES = 72  # characters of the joint physics of a group
PHYSICS = ("armature", "damping", "friction", "stiffness", "spring_reference")
PHYSICS_UNITS = "armature kg m^2 or kg; damping N m s/rad or N s/m; friction N m or N"
SPRING_UNITS = "stiffness N m/rad or N/m; spring_reference rad or m"
NOTE_LINES = {True: 10, False: 3}  # of a warning, of any other note


def card(model: Robot) -> str:
    """Returns a page on the robot, at most 100 columns wide: size, masses, joints, frames, notes.

    Limits are in radians or metres, masses in kilograms; a mimic joint has "=" before the entries
    of its leader. Warnings come first among the notes, marked with "!". Shortened lists are in full
    in model.joints, model.frames and model.notes.
    """
    parts = (_head, _joints, _followers, _physics, _loops, _shapes, _frames, _notes)
    paragraphs = ("\n".join(part(model)) for part in parts)
    return "\n\n".join(filter(None, paragraphs))


def portable_card(model: Robot) -> str:
    """Returns the card without folders of this machine, for files that go to others."""
    source = re.split(r"[/\\]", model.source)[-1]
    notes = tuple(FOLDERS.sub("", note) for note in model.notes)
    return card(replace(model, source=source, notes=notes))


def _head(model: Robot) -> Iterator[str]:
    title = ROOT_TITLES.get(model.root)
    root = f"{model.root}, {title}" if title else _clean(model.root, 80)
    ground = f", {model.ground_mass:.6g} kg fixed to the ground" if model.ground_mass else ""
    yield _clean(model.name, WIDTH)
    yield f"{INDENT}source   {_clean(model.source or 'made in memory', WIDTH - 11)}"
    yield f"{INDENT}root     {root}"
    yield f"{INDENT}size     nbodies {model.nbodies}, nq {model.nq}, nv {model.nv}"
    yield f"{INDENT}mass     {model.mass:.6g} kg moving{ground}"
    yield f"{INDENT}gravity  {_numbers(model.gravity)} m/s^2"
    if model.nv and (steps := stable_steps(model)):
        yield from _wrapped(f"{INDENT}time     ", _time(steps), GROUP_LINES)
    if any(joint.limit_stiffness for joint in model.joints):
        yield f"{INDENT}limits   soft stops, of the stiffness below"
    elif any(isfinite(x) for joint in model.joints for x in (*joint.lower, *joint.upper)):
        yield f'{INDENT}limits   motions pass through them (limits="soft" at load makes stops)'


def _time(steps: StableSteps) -> str:
    """Returns the largest stable steps of time, in ms, with the joints that set them."""
    parts = []
    if steps.springs:
        joint, dt = steps.springs
        parts.append(f"dt < {1e3 * dt:.2g} ms, by the spring of {_clean(joint, NAME)}")
    if steps.resistance:
        joint, dt = steps.resistance
        any_dt = "" if parts else "any dt by default; "
        bound = f"{any_dt}explicit methods dt < {1e3 * dt:.3g} ms"
        parts.append(f"{bound}, by damping and friction of {_clean(joint, NAME)}")
    if not parts:
        joint, inertia = steps.light
        bound = f"{inertia:.2g} kg m^2 or kg at {_clean(joint, NAME)}"
        wanted = "fast motions want dt in which no joint turns more than 0.1 rad"
        parts.append(f"nothing is stiff; {wanted}; least inertia {bound}")
    return "; ".join(parts)


# Joints


def _joints(model: Robot) -> Iterator[str]:
    if not model.joints:
        return
    rows = [COLUMN_TITLES, *(_row(model, i) for i in range(model.nbodies))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, second = NAMES
    others = sum(widths) - widths[first] - widths[second]
    room = WIDTH - others - len(INDENT) * len(widths)
    if widths[first] + widths[second] > room:
        widths[first], widths[second] = _widths_of_names(rows, room)
    for row in rows:
        if any(len(row[k]) > widths[k] for k in NAMES):
            yield from _names_of_row(row, widths[0])
            row = tuple("" if k in (0, *NAMES) else cell for k, cell in enumerate(row))
        cells = [_aligned(cell, widths[k], k) for k, cell in enumerate(row)]
        yield (INDENT + INDENT.join(cells)).rstrip()


def _widths_of_names(rows: Sequence[tuple[str, ...]], room: int) -> tuple[int, int]:
    """Returns the widths of the columns of names in which the names of most rows fit."""
    first, second = NAMES
    titles = [len(COLUMN_TITLES[k]) for k in NAMES]
    fits = lambda width: sum(
        len(row[first]) <= width and len(row[second]) <= room - width for row in rows
    )
    width = max(range(titles[0], room - titles[1] + 1), key=fits, default=titles[0])
    return width, max(room - width, titles[1])


def _names_of_row(row: tuple[str, ...], width: int) -> Iterator[str]:
    """Yields the number and the names of a row whose names are too long for their columns."""
    number, (joint, body) = row[0].rjust(width), (row[k] for k in NAMES)
    head = INDENT + number + INDENT
    together = f"{head}{joint} on {body}"
    if len(together) <= WIDTH:
        yield together
        return
    yield head + _shortened(joint, WIDTH - len(head))
    yield " " * len(head) + "on " + _shortened(body, WIDTH - len(head) - len("on "))


def _row(model: Robot, i: int) -> tuple[str, ...]:
    joint, kind = model.joints[i], model.types[i]
    follows = "=" if joint.mimic else ""
    return (
        str(i),
        _clean(joint.name),
        _type(joint),
        _clean(_own_name(model, joint.parent)),
        follows + _span(model.first_q[i], kind.nq),
        follows + _span(model.first_v[i], kind.nv),
        _axes(joint),
        _limits(joint),
        f"{model.bodies[i].mass:.5g}",
    )


def _type(joint: Joint) -> str:
    """Returns a joint's type, "continuous" for a revolute one without limits, as in URDF."""
    unlimited = joint.kind.unlimited_name if _limits(joint) == "none" else ""
    return unlimited or joint.type


def _aligned(cell: str, width: int, column: int) -> str:
    cell = _shortened(cell, width)
    return cell.rjust(width) if column in RIGHT_ALIGNED else cell.ljust(width)


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _axes(joint: Joint) -> str:
    if not joint.kind.axis:
        return "-"
    second = f", {_axis(joint.axis2)}" if joint.kind.chain else ""
    pitch = f", {joint.pitch:.3g} m/rad" if joint.kind.of_pitch else ""
    return _shortened(_axis(joint.axis) + second + pitch, AXES)


def _axis(axis: Floats) -> str:
    for k, letter in enumerate("xyz"):
        if abs(axis[k]) == 1:
            return letter if axis[k] > 0 else "-" + letter
    return _numbers(axis, 2)


def _limits(joint: Joint) -> str:
    pairs = list(zip(joint.lower, joint.upper, strict=True))
    if all(pair == (-inf, inf) for pair in pairs):
        return "none"
    return f"{pairs[0][0]:.3g} .. {pairs[0][1]:.3g}" if len(pairs) == 1 else "some"


def _followers(model: Robot) -> Iterator[str]:
    laws = [f"{joint.name} = {joint.mimic}" for joint in model.joints if joint.mimic]
    if laws:
        yield "mimic joints, without entries of their own in q and v"
    for law in laws[:FOLLOWERS]:
        yield INDENT + _clean(law, WIDTH - len(INDENT))
    if len(laws) > FOLLOWERS:
        yield f"{INDENT}... and {len(laws) - FOLLOWERS} more"


def _loops(model: Robot) -> Iterator[str]:
    """Lists the constraints that close loops, with their rows."""
    closures = model.loop_closures
    if closures:
        rows = sum(closure.constraint.rows for closure in closures)
        yield f"loops, {counted(rows, 'row')}, which hold with constraints=model.loops"
    for constraint, kp, kd, _ in closures[:FOLLOWERS]:
        gains = f", kp {kp:g}, kd {kd:g}" if kp or kd else ""
        yield INDENT + _clean(f"{name_of(constraint)}{gains}", WIDTH - len(INDENT))
    if len(closures) > FOLLOWERS:
        yield f"{INDENT}... and {len(closures) - FOLLOWERS} more"


def _physics(model: Robot) -> Iterator[str]:
    """Lists armature, damping, friction and springs with the joints that have the same figures."""
    grouped: dict[str, list[str]] = {}
    for joint in model.joints:
        physics = {name: getattr(joint, name) for name in PHYSICS}
        parts = [f"{name} {_range(figures)}" for name, figures in physics.items() if any(figures)]
        if joint.limit_stiffness:
            parts.append(
                f"soft limits {joint.limit_stiffness:.3g}, damping {joint.limit_damping:.3g}"
            )
        if parts:
            grouped.setdefault(_shortened(", ".join(parts), FIGURES), []).append(joint.name)
    if grouped:
        units = f"; {SPRING_UNITS}" if any(any(joint.stiffness) for joint in model.joints) else ""
        yield from _wrapped("", f"joint physics ({PHYSICS_UNITS}{units})", GROUP_LINES)
    lists = [
        (figures, ["every joint"] if len(names) == model.nbodies > 1 else names)
        for figures, names in grouped.items()
    ]
    yield from _lists(lists, "groups of joints", FIGURES)


def _range(figures: Floats) -> str:
    """Writes one figure for all degrees of freedom of a joint, or the least and the largest."""
    low, high = min(figures), max(figures)
    return f"{low:.3g}" if low == high else f"{low:.2g} .. {high:.2g}"


# Collision shapes


def _shapes(model: Robot) -> Iterator[str]:
    """Lists the collision shapes of each body, with their sizes."""
    grouped: dict[str, list[str]] = {}
    for shape in model.collision_shapes:
        text = f"{shape.name} ({f'{shape.kind} {dimensions(shape)}'.rstrip()})"
        grouped.setdefault(model.geometry.body_of(shape), []).append(text)
    if grouped:
        count = len(model.collision_shapes)
        yield f"collision shapes ({count}), m, for fl.Ground; model.geometry has all figures"
    lists = [(_clean(body), texts) for body, texts in grouped.items()]
    yield from _lists(lists, "bodies with shapes", NAME)


# Frames


def _frames(model: Robot) -> Iterator[str]:
    """Lists the frames of bodies that carry several, or one of another name."""
    if not model.frames:
        return
    grouped: dict[int, list[str]] = {}
    for frame in model.frames:
        grouped.setdefault(frame.body, []).append(frame.name)
    listed = {i: names for i, names in sorted(grouped.items()) if names != [_own_name(model, i)]}
    yield f"frames ({len(model.frames)}), by the body that carries them"
    lists = [(_clean(_own_name(model, i)), names) for i, names in listed.items()]
    yield from _lists(lists, "bodies with several frames", NAME)
    if len(grouped) > len(listed):
        rest = "each body carries" if not listed else "every other body carries"
        yield f"{INDENT}{rest} one frame, of its own name"


def _lists(lists: Sequence[tuple[str, list[str]]], what: str, widest: int) -> Iterator[str]:
    """Lists names behind aligned titles; lists that are too many are counted.

    widest: characters from which on a title has another line.
    """
    lengths = [len(title) for title, _ in lists[:GROUPS]]
    width = max((n for n in lengths if n <= widest), default=0)
    for title, names in lists[:GROUPS]:
        if len(title) > width:
            yield INDENT + _shortened(title, WIDTH - len(INDENT))
        beside = title if len(title) <= width else ""
        text = ", ".join(map(_clean, names))
        yield from _wrapped(f"{INDENT}{beside.ljust(width)}{INDENT}", text, GROUP_LINES)
    if len(lists) > GROUPS:
        yield f"{INDENT}... and {len(lists) - GROUPS} more {what}"


def _own_name(model: Robot, body: int) -> str:
    return GROUND if body == WORLD else model.bodies[body].name


# Notes


def _notes(model: Robot) -> Iterator[str]:
    if not model.notes:
        return
    yield "notes"
    for note in sorted(model.notes, key=lambda note: not note.startswith(WARNING)):
        warns = note.startswith(WARNING)
        mark = "! " if warns else "- "
        yield from _wrapped(INDENT + mark, _clean(note.removeprefix(WARNING)), NOTE_LINES[warns])


# Text


def _wrapped(head: str, text: str, most: int) -> Iterator[str]:
    """Wraps a text behind its head, in at most so many lines; "..." shows a cut."""
    shown = text[: (most + 1) * WIDTH]  # a longer text need not be wrapped
    lines = wrap(shown, WIDTH - len(head) - len(" ..."), break_on_hyphens=False)
    for k, line in enumerate(lines[:most]):
        cut = " ..." if k == most - 1 and len(lines) > most else ""
        yield (head if k == 0 else " " * len(head)) + line + cut


def _clean(text: str, width: int | None = None) -> str:
    """Replaces what is not printable in a text of the file, so that it stays in its line."""
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable if width is None else _shortened(printable, width)


def _shortened(text: str, width: int) -> str:
    """Shortens a text in the middle, for names differ at their ends."""
    if len(text) <= width:
        return text
    tail = (width - 2) // 2
    return f"{text[: width - 2 - tail]}..{text[len(text) - tail :]}"


def _numbers(numbers: Floats, digits: int = 6) -> str:
    return "(" + ", ".join(f"{x + 0.0:.{digits}g}" for x in numbers) + ")"
