"""Rigid-body dynamics of robots, and exact derivatives, for thousands of states in one call."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from featherlane.backends import main_interpreter  # noqa: F401, before NumPy is loaded

# isort: split
from featherlane.api import convert, editing, identification
from featherlane.api.avoidance import Avoidance
from featherlane.api.builder import ModelBuilder
from featherlane.api.call import call
from featherlane.api.compile import compile
from featherlane.api.derivatives import gradient, hessian, jacobian, jvp, vjp
from featherlane.api.distances import (
    sphere_capsule_distance,
    sphere_plane_distance,
    sphere_sphere_distance,
)
from featherlane.api.editing import attach
from featherlane.api.generate import generate
from featherlane.api.linear_systems import solve
from featherlane.api.memory import empty_cache
from featherlane.api.model import Model, load
from featherlane.api.placements import (
    adjoint,
    exp6,
    exp6_jacobian,
    exp6_jacobian_inverse,
    interpolate_placements,
    inverse,
    log6,
    placement_error,
    placement_of,
)
from featherlane.api.random_robots import chain, random_tree
from featherlane.api.rotations import (
    exp3,
    exp3_jacobian,
    exp3_jacobian_inverse,
    interpolate_rotations,
    log3,
    matrix_from_quaternion,
    matrix_from_rpy,
    quaternion_from_matrix,
    quaternion_from_rpy,
    quaternion_product,
    rotation_error,
    rpy_from_matrix,
    rpy_from_quaternion,
    slerp,
)
from featherlane.errors import MODULE, CompileError, DeviceError, ModelError, no_attribute
from featherlane.functions.function import Function
from featherlane.functions.results import ForwardDynamicsDerivatives, InverseDynamicsDerivatives
from featherlane.functions.table import FUNCTIONS
from featherlane.program.array import trace
from featherlane.program.graph import Graph
from featherlane.robot.actuators import JointActuator
from featherlane.robot.body_spheres import BodySphere
from featherlane.robot.collision_shapes import CollisionPair, CollisionShape
from featherlane.robot.constraint_types import Coupling, Hinge, Pin, Rod, Weld
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import Coulomb, SoftContacts
from featherlane.robot.ground import Ground, HeightField
from featherlane.robot.loaders import bundled
from featherlane.robot.parts import Body, Frame, Joint, Mimic, Placement
from featherlane.scalar import (
    acos,
    asin,
    atan2,
    cos,
    exp,
    floor,
    log,
    maximum,
    minimum,
    select,
    sin,
    sqrt,
    tanh,
)
from featherlane.version import __version__ as __version__

if TYPE_CHECKING:
    from featherlane.accelerators.designs import multifunction
    from featherlane.accelerators.entry import accelerator
    from featherlane.api.ilqr import ilqr

__all__ = [
    "FUNCTIONS",
    "Avoidance",
    "Body",
    "BodySphere",
    "CollisionPair",
    "CollisionShape",
    "CompileError",
    "Constraints",
    "Coulomb",
    "Coupling",
    "DeviceError",
    "ForwardDynamicsDerivatives",
    "Frame",
    "Function",
    "Graph",
    "Ground",
    "HeightField",
    "Hinge",
    "InverseDynamicsDerivatives",
    "Joint",
    "JointActuator",
    "Mimic",
    "Model",
    "ModelBuilder",
    "ModelError",
    "Pin",
    "Placement",
    "Rod",
    "SoftContacts",
    "Weld",
    "accelerator",
    "acos",
    "adjoint",
    "asin",
    "atan2",
    "attach",
    "bundled",
    "call",
    "chain",
    "compile",
    "convert",
    "cos",
    "editing",
    "empty_cache",
    "exp",
    "exp3",
    "exp3_jacobian",
    "exp3_jacobian_inverse",
    "exp6",
    "exp6_jacobian",
    "exp6_jacobian_inverse",
    "floor",
    "generate",
    "gradient",
    "hessian",
    "identification",
    "ilqr",
    "interpolate_placements",
    "interpolate_rotations",
    "inverse",
    "jacobian",
    "jvp",
    "load",
    "log",
    "log3",
    "log6",
    "matrix_from_quaternion",
    "matrix_from_rpy",
    "maximum",
    "minimum",
    "multifunction",
    "placement_error",
    "placement_of",
    "quaternion_from_matrix",
    "quaternion_from_rpy",
    "quaternion_product",
    "random_tree",
    "rotation_error",
    "rpy_from_matrix",
    "rpy_from_quaternion",
    "select",
    "sin",
    "slerp",
    "solve",
    "sphere_capsule_distance",
    "sphere_plane_distance",
    "sphere_sphere_distance",
    "sqrt",
    "tanh",
    "trace",
    "vjp",
]

_LATE = {  # and their modules
    "accelerator": "featherlane.accelerators.entry",
    "ilqr": "featherlane.api.ilqr",
    "multifunction": "featherlane.accelerators.designs",
}


if not TYPE_CHECKING:  # type checkers would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """The names that few programs need: their modules are loaded when they are asked for."""
        if name == "interop":
            return import_module("featherlane.interop")
        if name not in _LATE:
            raise no_attribute(name, f"module {__name__!r}", __all__, MODULE)
        return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
