"""The indices of a model's joints in another library's arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from featherlane.api.convert.change import Change, JointEntries
from featherlane.api.convert.forms import CONTINUOUS, Convention, Library
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.walk import depths

JointNames = Sequence[str] | None
"""The names of another library's joints, in its order; None: that of this package."""
FreeJoints = Collection[str] | None
Part = tuple[int, range, range]  # a joint here, and entries of its q and v in the other library


def lay_out(
    model: Robot,
    library: Library,
    names: JointNames = None,
    continuous: Collection[str] = (),
    free: FreeJoints = None,
) -> Change:
    """Returns the change to a library whose joints come in the order of `names`.

    continuous: the revolute joints that are a cosine and a sine there. free: those of `names` that
    are free joints; None where that is not known. Raises ValueError for joints that only one has.
    """
    order = model.independent
    if library.breadth_first:
        order = tuple(sorted(order, key=depths(model.parent).__getitem__))
    forms = {i: _convention(model, i, library, continuous) for i in order}
    parts = {name: part for i in order for name, part in _parts(model, i, library, forms[i])}
    sequence = [parts[name] for name in _sorted(model, library, list(parts), names, free)]
    q = [(i, k) for i, entries, _ in sequence for k in entries]
    v = [(i, k) for i, _, entries in sequence for k in entries]
    if library.w_last:
        quaternions = {i for i in order if model.types[i].quaternions}
        q.sort(key=lambda entry: entry[0] in quaternions and entry[1] == forms[entry[0]].nq - 1)
    at_q, at_v = ({entry: at for at, entry in enumerate(entries)} for entries in (q, v))
    places = []
    for i in model.independent:
        indices = tuple(at_q[i, k] for k in range(forms[i].nq))
        rates = forms[i].v or range(model.types[i].nv)
        places.append(JointEntries(i, forms[i], indices, tuple(at_v[i, k] for k in rates)))
    return Change(model, library.name, tuple(places))


def _convention(model: Robot, i: int, library: Library, continuous: Collection[str]) -> Convention:
    joint, kind = model.joints[i], model.types[i]
    if kind.name == "revolute" and joint.name in continuous:
        return CONTINUOUS
    if kind.name in library.conventions:
        return library.conventions[kind.name]
    if kind.name in library.same:
        return Convention(kind.nq)
    raise ValueError(
        f"joint {joint.name!r} is {kind.name}: {library.name} has no such joint, or "
        "api/convert/forms.py has no row for it"
    )


def _parts(model: Robot, i: int, library: Library, form: Convention) -> Iterator[tuple[str, Part]]:
    """Yields, by name, the joints of the other library that are joint i here."""
    kind = model.types[i]
    suffixes = library.parts.get(kind.name, ("",))
    n, m = form.nq // len(suffixes), kind.nv // len(suffixes)
    for k, suffix in enumerate(suffixes):
        part = i, range(k * n, (k + 1) * n), range(k * m, (k + 1) * m)
        yield model.joints[i].name + suffix, part


def _sorted(
    model: Robot, library: Library, known: list[str], names: JointNames, free: FreeJoints
) -> list[str]:
    """Returns the other library's joints in its order, by our names."""
    if names is None:
        return known
    peers = _with_root(model, _checked(library, names), free)
    if len(set(peers)) != len(peers) or set(peers) != set(known):
        other = sorted(set(known) ^ set(peers)) or sorted({n for n in peers if peers.count(n) > 1})
        raise ValueError(
            f"{library.name}'s joints are not the model's: in one of the two models only, or "
            f"named twice: {', '.join(other)}{_hint(model, set(known), set(peers))}"
        )
    return peers


def _checked(library: Library, names: Any) -> list[str]:
    listed = list(names) if isinstance(names, Iterable) else [names]
    if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
        wanted = f"{library.model}the names of {library.name}'s joints in order"
        raise TypeError(f"peer is {names!r}: wanted {wanted}")
    return listed


def _with_root(model: Robot, names: list[str], free: FreeJoints) -> list[str]:
    """Adds a free root that is not named in front, or, where the other library's free joints are
    known, takes the only one with another name for it.
    """
    roots = [joint.name for joint in model.joints if joint.type == "free" and joint.parent == WORLD]
    unnamed = [name for name in roots if name not in names]
    if free is None:
        return [name for name in unnamed if name == model.joint_names[0]] + names
    unknown = [name for name in free if name not in model.joint_names]
    if len(unnamed) == len(unknown) == 1:
        names[names.index(unknown[0])] = unnamed[0]
    return names


def _hint(model: Robot, known: set[str], peers: set[str]) -> str:
    followers = sorted({joint.name for joint in model.joints if joint.mimic} & peers)
    if followers:
        return f" ({', '.join(followers)}: mimic joints, without coordinates here)"
    both = known - peers and peers - known
    return "; model.renamed gives joints other names" if both else ""
