"""The ground of a step, with the law of its contacts, and which arrays it takes with them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.scene import JointLimit, Scene
from featherlane.algorithms.soft.inverse_weights import NO_WEIGHTS, InverseWeights, inverse_weights
from featherlane.errors import instead, shown
from featherlane.functions.arguments import numbers_of
from featherlane.robot.contact_law import ContactLaw, Coulomb, SoftContacts
from featherlane.robot.ground import Ground, HeightField, Surface
from featherlane.robot.loaders.words import listed
from featherlane.robot.model import Robot
from featherlane.robot.row_softness import RowSoftness
from featherlane.robot.shape_pairs import ContactNames, ShapePair, shape_pairs
from featherlane.robot.tree_of import tree_of

if TYPE_CHECKING:
    from featherlane.algorithms.many_contacts import ContactLayout

# Contact points that take 10 s of one core to compile, of which users hear
MANY: dict[type, int] = {Coulomb: 96, SoftContacts: 24}
MANY_UNROLLED = 24  # contact points of functions of rigid steps that have no loop of sweeps
Shape = tuple[str | int, ...]
GROUND_PARAMETERS: dict[str, Shape] = {
    "friction": (),
    "restitution": (),
    "height": (),
    "heights": ("nx", "ny"),
    "impulse": ("impulses",),
}
RANGES = {"friction": (0.0, inf), "restitution": (0.0, 1.0)}
STATE = "impulse"  # of a step before, which may be NaN as q and v may
GROUND_OUTPUTS: dict[str, Shape] = {
    "contact_force": ("contacts", 3),
    "residual": (),
    "impulse_next": ("impulses",),
}
# What the rows of a solution of the law read, by the arrays that have an entry for each solution
SOLUTION = {"a": "a_each", "impulse_next": "impulse_each", "restitution": "restitution_each"}


class GroundInputs(NamedTuple):
    """The ground and law of a variant, and the names of `GROUND_PARAMETERS` that are inputs."""

    ground: Ground
    law: ContactLaw
    parameters: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, Shape]:
        """The inputs, after those that the function has without ground."""
        return {name: GROUND_PARAMETERS[name] for name in self.parameters}

    def key(self, model: Robot) -> Any:
        """Returns what code depends on, besides the variant and the model's fingerprint."""
        limits = _limits(model) if self.law.limits else ()
        pairs = _pairs(model, self.ground)
        numbers = [p.numbers if self.is_soft else p.numbers.three for p in pairs]
        facts = [(_facts(p.shape), _facts(p.other)) for p in pairs]
        return facts, numbers, limits, self._weights(model), self._softness(model)

    @property
    def is_soft(self) -> bool:
        """Whether the law is that of soft contacts."""
        return isinstance(self.law, SoftContacts)

    def _weights(self, model: Robot) -> InverseWeights:
        """Returns the inverse inertias that soft contacts depend on, which the model keeps."""
        if not self.is_soft:
            return NO_WEIGHTS
        known = model.__dict__
        if "_inverse_weights" not in known:
            known["_inverse_weights"] = inverse_weights(model)
        return known["_inverse_weights"]

    def _softness(self, model: Robot) -> tuple[RowSoftness, ...]:
        """Returns the softness of dry friction of each entry of v under soft contacts."""
        if not (self.is_soft and self.law.friction_loss):
            return ()
        joints = [model.joints[i] for i in model.independent]
        return tuple(x for joint in joints for x in [joint.friction_softness] * joint.kind.nv)

    def warm(self) -> GroundInputs:
        """Returns the inputs with those impulses at which sweeps begin."""
        return self._with("impulse")

    def with_restitution(self) -> GroundInputs:
        """Returns the inputs with a coefficient of restitution."""
        return self._with("restitution")

    def _with(self, name: str) -> GroundInputs:
        names = {*self.parameters, name}
        return self._replace(parameters=tuple(x for x in GROUND_PARAMETERS if x in names))

    def scene(self, model: Robot, **inputs: Any) -> Scene:
        """Returns the scene of a robot. inputs: scalars for `parameters`."""
        limits = _limits(model) if self.law.limits else ()
        pairs, weights = _pairs(model, self.ground), self._weights(model)
        softness = self._softness(model)
        return Scene(pairs, self.law, limits, **inputs, weights=weights, softness=softness)

    def points(self, model: Robot) -> list[ContactPoint]:
        """Returns the contact points of the neutral configuration: in all, they are as many."""
        return self.scene(model).neutral_contacts(tree_of(model))

    def contact_names(self, model: Robot) -> tuple[ContactNames, ...]:
        """Returns the names of what touches at each contact point."""
        return tuple(point.pair.named_on(model) for point in self.points(model))

    def layout(self, model: Robot) -> ContactLayout:
        """Returns the layout of contacts and joints in rigid steps, which the model keeps."""
        known, key = model.__dict__.setdefault("_contact_layouts", {}), self.without_arrays()
        if key not in known:
            from featherlane.algorithms.many_contacts import ContactLayout  # few need it

            tree, frictions = tree_of(model), model.friction.tolist()
            has_rows = [1.0 if self.law.friction_loss and f else 0.0 for f in frictions]
            known[key] = ContactLayout.of(tree, key.scene(model), has_rows)
            if (count := len(known[key].contacts)) > MANY[type(self.law)]:
                warnings.warn(_many(model, self.ground, count), RuntimeWarning, stacklevel=2)
            if not self.is_soft and (pairs := [*filter(_turns, _pairs(model, self.ground))]):
                warnings.warn(_left_out(pairs), RuntimeWarning, stacklevel=2)
        return known[key]

    def warn_of_unrolled_sweeps(self, model: Robot, name: str, beside: str) -> None:
        """Warns of a function of rigid steps whose sweeps are no loop with what it has beside the
        ground, before it is compiled.
        """
        count = len(self.layout(model).contacts)
        if not self.is_soft and count > MANY_UNROLLED:
            code = f"{name} with {beside}"
            warnings.warn(_many(model, self.ground, count, code), RuntimeWarning, stacklevel=2)

    def without_arrays(self) -> GroundInputs:
        """Returns the ground and the law alone. A restitution that is an input counts as 1."""
        plain = self._replace(parameters=())
        if isinstance(self.law, Coulomb) and "restitution" in self.parameters:
            return plain._replace(law=replace(self.law, restitution=1.0))
        return plain

    @property
    def rebounds(self) -> bool:
        """Whether rigid contacts have a restitution, or may have one."""
        law = self.without_arrays().law
        return isinstance(law, Coulomb) and law.restitution > 0

    def counts(self, model: Robot) -> dict[str, int]:
        """Returns the sizes of arrays of contacts."""
        field, layout = self.ground.height_field, self.layout(model)
        nx, ny = field.shape if field else (0, 0)
        counts = {"contacts": len(layout.contacts), "impulses": layout.rows, "nx": nx, "ny": ny}
        if self.is_soft:
            return counts | {"impulses": self._soft_impulses(model)}
        return counts | {
            "solutions": layout.solutions,
            "swept": layout.solutions * layout.rows,
            "moved": layout.solutions * model.nv,
            "system": layout.system_size,
            "ending": layout.ending_size(tree_of(model)),
        }

    def _soft_impulses(self, model: Robot) -> int:
        dry = sum(map(bool, model.friction.tolist())) if self.law.friction_loss else 0
        condims = sum(point.pair.numbers.condim for point in self.points(model))
        return condims + len(self.scene(model).limits) + dry


def _pairs(model: Robot, ground: Ground) -> tuple[ShapePair, ...]:
    """Returns the pairs of shapes that touch, which the model keeps. Raises ValueError."""
    known = model.__dict__.setdefault("_shape_pairs", {})
    if ground not in known:
        known[ground] = shape_pairs(model, ground)
    return known[ground]


def _many(model: Robot, ground: Ground, count: int, unrolled: str = "") -> str:
    """Returns a warning of contacts whose code takes long to compile. unrolled: that whose code has
    every sweep, if any has.
    """
    shapes = dict.fromkeys(pair.shape.name for pair in _pairs(model, ground))
    time = "the code of a step takes more than 10 s of one core to compile"
    if unrolled:
        time = (
            f"the code of {unrolled} grows with their square and takes minutes to compile (that "
            "without does not)"
        )
    return (
        f"{count} contact points on {len(shapes)} shapes of {model.name!r} ({listed([*shapes])}): "
        f"{time}; name the shapes that touch, as in fl.Ground(shapes=('foot',))"
    )


def _turns(pair: ShapePair) -> bool:
    """Returns whether a contact has torsional or rolling friction."""
    return any(pair.numbers.three[1:])


def _left_out(pairs: Sequence[ShapePair]) -> str:
    """Returns a warning of friction that the law of Coulomb leaves out."""
    condim = max(pair.numbers.condim for pair in pairs)
    names = dict.fromkeys(pair.shape.name for pair in pairs)
    return (
        f"contacts of {listed([*names])} have condim {condim}: fl.Coulomb leaves out their "
        "torsional and rolling friction; law=fl.SoftContacts() has both, and shapes with condim=3 "
        "have none"
    )


def _facts(x: Surface) -> Any:
    """Returns what contact points of a shape or height field depend on."""
    if isinstance(x, HeightField):
        return x.x, x.y, x.heights
    return x.kind, x.size, x.body, x.placement, x.points


def _limits(model: Robot) -> tuple[JointLimit, ...]:
    """Returns the limits of joints of one freedom that have any."""
    limits = []
    for i in model.independent:
        joint, kind = model.joints[i], model.types[i]
        ends = (*joint.lower, *joint.upper)
        if kind.nv == kind.nq == 1 and len(ends) == 2 and any(map(isfinite, ends)):
            places = model.first_v[i], model.first_q[i]
            lower, upper = map(float, ends)
            limits.append(JointLimit(*places, lower, upper, joint.limit_softness))
    return tuple(limits)


def ground_in(named: dict[str, Any]) -> tuple[GroundInputs | None, tuple[Any, ...]]:
    """Takes the ground and its arrays out of the named arguments of a call, see `with_ground`."""
    return with_ground(*(named.pop(x, None) for x in ("ground", "law", "ground_params")))


def with_ground_inputs(ground: Any, law: Any, names: Iterable[str]) -> GroundInputs | None:
    """Returns the ground of a function, if it has one, with the names of arrays that are inputs."""
    zeros = dict.fromkeys(names, 0.0)
    return with_ground(ground, law, zeros or None)[0]


def with_ground(
    ground: Any, law: Any = None, parameters: Any = None
) -> tuple[GroundInputs | None, tuple[Any, ...]]:
    """Returns the ground of a call, if there is one, and the arrays that come with it. parameters:
    arrays by name. Raises TypeError or ValueError.
    """
    if ground is None:
        for name, x in (("law", law), ("ground_params", parameters)):
            if x is not None:
                raise TypeError(f"{name} needs a ground: wanted ground=fl.Ground(...)")
        return None, ()
    checked_ground(ground)
    law = Coulomb() if law is None else law
    if law is Coulomb or law is SoftContacts:
        name = f"fl.{law.__name__}"
        raise TypeError(f"law is the class {name}: wanted an instance, as in {name}()")
    if not isinstance(law, ContactLaw):
        raise TypeError(f"law is {shown(law)}: wanted fl.Coulomb(...) or fl.SoftContacts(...)")
    arrays = _checked(parameters)
    if "restitution" in arrays and isinstance(law, SoftContacts):
        raise ValueError(
            "ground_params has restitution, which soft contacts do not have: wanted the law "
            "fl.Coulomb(...), or a solref of the shapes with less damping"
        )
    if (ground.height_field is None) == ("heights" in arrays):
        raise ValueError(
            "ground_params needs heights, (..., nx, ny) in m, with a ground that has a height "
            "field of this shape without heights, and only then"
        )
    return GroundInputs(ground, law, tuple(arrays)), tuple(arrays.values())


def checked_ground(ground: Any) -> Ground:
    """Returns a ground. Raises TypeError for anything else."""
    if isinstance(ground, Ground):
        return ground
    raise TypeError(f"ground is {shown(ground)}: wanted fl.Ground(...)")


def _checked(parameters: Any) -> dict[str, Any]:
    """Returns arrays in the order of `GROUND_PARAMETERS`."""
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        kind = type(parameters).__name__
        raise TypeError(
            f"ground_params is {kind}: wanted a dict of arrays, as in {{'friction': m}}"
        )
    for name, x in parameters.items():
        if name not in GROUND_PARAMETERS:
            raise ValueError(f"ground_params names {name!r}{instead(str(name), GROUND_PARAMETERS)}")
        if name != STATE:
            _check_within(name, x)
    values = {name: parameters[name] for name in GROUND_PARAMETERS if name in parameters}
    return {name: float(x) if isinstance(x, Real) else x for name, x in values.items()}


def _check_within(name: str, x: Any) -> None:
    """Raises ValueError for numbers out of range; traced ones, and those on GPUs, pass."""
    numbers = numbers_of(x)
    if numbers is None:
        return
    least, most = RANGES.get(name, (-inf, inf))
    odd = numbers[~(np.isfinite(numbers) & (numbers >= least) & (numbers <= most))]
    if odd.size:
        wanted = "finite numbers" if least == -inf else f"finite numbers of {least:g} or more"
        wanted = wanted if most == inf else f"numbers from {least:g} to {most:g}"
        raise ValueError(f"{name} of ground_params has {odd.flat[0]:g}: wanted {wanted}")
