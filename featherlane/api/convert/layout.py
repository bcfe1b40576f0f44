"""Where the joints of a model are in another library's arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from featherlane.api.convert.change import Change, Place
from featherlane.api.convert.forms import CONTINUOUS, Form, Library
from featherlane.robot.model import WORLD, Model

Names = Sequence[str] | None
Part = tuple[int, range, range]  # a joint, and which entries of its q and v there


def lay_out(
    model: Model,
    library: Library,
    names: Names = None,
    continuous: Collection[str] = (),
    free: Collection[str] | None = None,
) -> Change:
    """The change to a library whose joints come in the order of `names`.

    continuous: the turns that are a cosine and a sine there. free: those of `names` that are free
    joints; None where that is not known. Raises ValueError for joints that only one of them has.
    """
    order = model.independent
    if library.breadth_first:
        order = tuple(sorted(order, key=_depths(model).__getitem__))
    forms = {i: _form(model, i, library, continuous) for i in order}
    parts = {name: part for i in order for name, part in _parts(model, i, library, forms[i])}
    there = [parts[name] for name in _sorted(model, library, list(parts), names, free)]
    q = [(i, k) for i, entries, _ in there for k in entries]
    v = [(i, k) for i, _, entries in there for k in entries]
    if library.w_last:
        quaternions = {i for i in order if model.types[i].quaternions}
        q.sort(key=lambda slot: slot[0] in quaternions and slot[1] == forms[slot[0]].nq - 1)
    at_q, at_v = ({slot: at for at, slot in enumerate(slots)} for slots in (q, v))
    places = [_place(model, i, forms[i], at_q, at_v) for i in model.independent]
    return Change(model, library.name, tuple(places))


Slots = dict[tuple[int, int], int]  # where an entry of a joint is


def _place(model: Model, i: int, form: Form, at_q: Slots, at_v: Slots) -> Place:
    v = form.v or range(model.types[i].nv)
    return Place(i, form, tuple(at_q[i, k] for k in range(form.nq)), tuple(at_v[i, k] for k in v))


def _depths(model: Model) -> list[int]:
    depths: list[int] = []
    for parent in model.parent:
        depths.append(0 if parent == WORLD else depths[parent] + 1)
    return depths


def _form(model: Model, i: int, library: Library, continuous: Collection[str]) -> Form:
    joint, kind = model.joints[i], model.types[i]
    if kind.name in library.lacks:
        raise ValueError(f"joint {joint.name!r} is {kind.name}: {library.name} has no such joint")
    if kind.name == "revolute" and joint.name in continuous:
        return CONTINUOUS
    return library.forms.get(kind.name, Form(kind.nq))


def _parts(model: Model, i: int, library: Library, form: Form) -> Iterator[tuple[str, Part]]:
    """The joints there that are joint i here, by name."""
    kind = model.types[i]
    suffixes = library.parts.get(kind.name, ("",))
    n, m = form.nq // len(suffixes), kind.nv // len(suffixes)
    for k, suffix in enumerate(suffixes):
        part = i, range(k * n, (k + 1) * n), range(k * m, (k + 1) * m)
        yield model.joints[i].name + suffix, part


def _sorted(
    model: Model, library: Library, known: list[str], names: Names, free: Collection[str] | None
) -> list[str]:
    """The joints there, in order and by our names."""
    if names is None:
        return known
    given = _with_root(model, _checked(library, names), free)
    if len(set(given)) != len(given) or set(given) != set(known):
        other = sorted(set(known) ^ set(given)) or sorted({n for n in given if given.count(n) > 1})
        raise ValueError(
            f"{library.name}'s joints are not the model's: in one of the two models only, or "
            f"named twice: {', '.join(other)}{_hint(model, set(known), set(given))}"
        )
    return given


def _checked(library: Library, names: Any) -> list[str]:
    told = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    if isinstance(names, str) or not all(isinstance(name, str) for name in told):
        wanted = f"{library.model}the names of {library.name}'s joints in order"
        raise TypeError(f"peer is {names!r}: wanted {wanted}")
    return told


def _with_root(model: Model, given: list[str], free: Collection[str] | None) -> list[str]:
    """A free root that is not named comes first; where the free joints there are known, it is the
    only one that has another name.
    """
    roots = [joint.name for joint in model.joints if joint.type == "free" and joint.parent == WORLD]
    mine = [name for name in roots if name not in given]
    if free is None:
        return [name for name in mine if name == model.joint_names[0]] + given
    theirs = [name for name in free if name not in model.joint_names]
    if len(mine) == len(theirs) == 1:
        given[given.index(theirs[0])] = mine[0]
    return given


def _hint(model: Model, known: set[str], given: set[str]) -> str:
    follow = sorted({joint.name for joint in model.joints if joint.mimic} & given)
    if follow:
        return f" ({', '.join(follow)}: followers of another, without coordinates here)"
    both = known - given and given - known
    return "; model.renamed gives joints other names" if both else ""
