"""Featherstone's algorithms, in lanes: rigid-body dynamics of robots for thousands of states at
once.
"""

from featherlane import convert, editing, identification
from featherlane.builder import ModelBuilder
from featherlane.compile_function import compile_function as compile
from featherlane.dynamics import Model, load
from featherlane.errors import CompileError, ModelError
from featherlane.function import Function
from featherlane.functions import FUNCTIONS
from featherlane.graph.graph import Graph
from featherlane.graph.trace import call, trace
from featherlane.loaders import bundled
from featherlane.model import Body, Frame, Joint, Mimic, Placement
from featherlane.results import ForwardDynamicsDerivatives, InverseDynamicsDerivatives
from featherlane.scalar import cos, select, sin, sqrt
from featherlane.trees import chain, random_tree

__all__ = [
    "FUNCTIONS",
    "Body",
    "CompileError",
    "ForwardDynamicsDerivatives",
    "Frame",
    "Function",
    "Graph",
    "InverseDynamicsDerivatives",
    "Joint",
    "Mimic",
    "Model",
    "ModelBuilder",
    "ModelError",
    "Placement",
    "bundled",
    "call",
    "chain",
    "compile",
    "convert",
    "cos",
    "editing",
    "identification",
    "load",
    "random_tree",
    "select",
    "sin",
    "sqrt",
    "trace",
]
__version__ = "0.1.0"
