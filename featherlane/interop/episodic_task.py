"""Tasks of reinforcement learning whose functions are traced, and the graphs of their steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, ClassVar

import numpy as np

from featherlane.errors import shown
from featherlane.functions.arguments import counted, whole

Shape = int | Sequence[int]
MOST = 2**31 - 1  # random numbers of an episode or a step


class EpisodicTask(ABC):
    """A task of one robot, as functions of its state that `interop.gymnasium.TracedVectorEnv`
    traces: write them with NumPy, methods of models and traced functions, without branches on
    values. The state is a named tuple of arrays; functions return it, or a dict by the same names.

    state: the shape of each array of the state by name. actions: how many numbers an action has.
    bounds: their least and greatest values, which are those of the space of actions and nothing
    more: `advance` gets actions as they are. longest: the steps after which an episode is
    truncated, None for never. random, noise: how many uniform numbers in [0, 1) `start` and
    `advance` get, 0 for none.
    """

    state: ClassVar[Mapping[str, Shape]]
    actions: ClassVar[int]
    bounds: ClassVar[tuple[Any, Any]] = (-1.0, 1.0)
    longest: ClassVar[int | None] = None
    random: ClassVar[int] = 1
    noise: ClassVar[int] = 0

    @abstractmethod
    def start(self, random: Any) -> Any:
        """Returns the state in which an episode begins. random (`random`,): uniform numbers."""

    @abstractmethod
    def advance(self, state: Any, action: Any, noise: Any) -> Any:
        """Returns the state after a step with an action (`actions`,). noise (`noise`,): uniform
        numbers.
        """

    @abstractmethod
    def observe(self, state: Any) -> Any:
        """Returns the observation of a state, one vector."""

    @abstractmethod
    def reward(self, state: Any, action: Any, after: Any) -> Any:
        """Returns the reward of a step from one state to the state after it, one number."""

    def terminated(self, state: Any) -> Any:
        """Returns whether a state ends the episode: by default never."""
        return False


class TaskGraphs:
    """The functions of a task that are compiled. Those of a step take and return arrays by name."""

    def __init__(self, task: EpisodicTask) -> None:
        if not isinstance(task.state, Mapping) or not task.state:
            raise ValueError(f"state is {shown(task.state)}: wanted a dict of shapes by name")
        self.task, self.actions = task, counted("actions", task.actions)
        self.shapes = {_name(name): _shape(name, shape) for name, shape in task.state.items()}
        self.tuple = namedtuple("State", self.shapes)  # type: ignore[misc]
        self.random = max(1, whole("random", task.random, 0, MOST))  # an input has some length
        self.noise = whole("noise", task.noise, 0, MOST)
        self.longest = np.inf if task.longest is None else counted("longest", task.longest)

    def inputs(self, *names: str) -> dict[str, Any]:
        """Returns the shapes of a step's inputs. names: those of its way of beginning again."""
        noise = {"noise": self.noise} if self.noise else {}
        shapes = {"over": (), "random": self.random}
        state = {f"state_{name}": shape for name, shape in self.shapes.items()}
        always = {**state, "action": self.actions, "age": ()}
        return {**always, **noise, **{name: shapes[name] for name in names}}

    def begin(self, random: Any) -> Any:
        """Returns the state in which an episode begins."""
        return self._state("start", self.task.start(random if self.task.random else ()))

    def observe(self, *state: Any) -> Any:
        """Returns the observation of a state."""
        seen = self.task.observe(self.tuple(*state))
        if len(np.shape(seen)) != 1 or 0 in np.shape(seen):
            raise ValueError(f"observe returns {_described(seen)}: wanted one vector (n,)")
        return seen

    def step(self, **inputs: Any) -> dict[str, Any]:
        """Returns a step after which no episode begins again."""
        after, ends = self._moved(inputs)
        return {**_named(after), "observation": self.observe(*after), **ends}

    def step_or_begin(self, *, over: Any, random: Any, **inputs: Any) -> dict[str, Any]:
        """Returns a step; where `over`, the first state of an episode with reward 0."""
        moved, ends = self._moved(inputs)
        after = self._where(over != 0, self.begin(random), moved)
        ends = {name: np.where(over != 0, 0.0, x) for name, x in ends.items()}
        return {**_named(after), "observation": self.observe(*after), **ends}

    def step_and_begin(self, *, random: Any, **inputs: Any) -> dict[str, Any]:
        """Returns a step; where it ends an episode, with the first state of the next one, and the
        observation that ended it as `last_observation`.
        """
        moved, ends = self._moved(inputs)
        over = ends["terminated"] | ends["truncated"]
        after = self._where(over, self.begin(random), moved)
        seen = {"observation": self.observe(*after), **ends}
        seen |= {"age": np.where(over, 0.0, ends["age"])}
        return {**_named(after), **seen, "last_observation": self.observe(*moved)}

    def _moved(self, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns the state after a step, the state before where that is not finite, with the
        reward, the ends of the episode and its age.
        """
        task, action = self.task, inputs["action"]
        before = self.tuple(**{name: inputs[f"state_{name}"] for name in self.shapes})
        moved = self._state("advance", task.advance(before, action, inputs.get("noise", ())))
        reward = _number("reward", task.reward(before, action, moved))
        finite = np.isfinite(sum(np.sum(x) for x in moved) + reward)
        after = self._where(finite, moved, before)
        age, ended = inputs["age"] + 1, _number("terminated", task.terminated(after))
        ends = {
            "reward": np.where(finite, reward, 0.0),
            "terminated": ended | ~finite,
            "truncated": age >= self.longest,
            "age": age,
        }
        return after, ends

    def _where(self, condition: Any, a: Any, b: Any) -> Any:
        return self.tuple(*(np.where(condition, x, y) for x, y in zip(a, b, strict=True)))

    def _state(self, method: str, value: Any) -> Any:
        """Returns what a function of the task returned as a state, checked."""
        named = value._asdict() if hasattr(value, "_asdict") else value
        if not isinstance(named, Mapping) or set(named) != set(self.shapes):
            names = ", ".join(named) if isinstance(named, Mapping) else shown(value)
            wanted = f"wanted a state of {', '.join(self.shapes)}"
            raise ValueError(f"{method} returns {names}: {wanted}")
        for name, shape in self.shapes.items():
            if np.shape(named[name]) != shape:
                got = np.shape(named[name])
                raise ValueError(f"{method} returns {name!r} of shape {got}: wanted {shape}")
        return self.tuple(**named)


def _number(method: str, value: Any) -> Any:
    """Returns the one number, or condition, that a function of the task returned, checked."""
    if value is None or np.shape(value) != ():
        raise ValueError(f"{method} returns {_described(value)}: wanted one of shape ()")
    return value


def _described(value: Any) -> str:
    shape = np.shape(value)
    return f"an array of shape {shape}" if shape else shown(value)


def _name(name: Any) -> str:
    """Returns the name of an array of the state, checked: a field of a named tuple."""
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name) or name[0] == "_":
        wanted = "wanted a Python identifier that does not begin with an underscore"
        raise ValueError(f"the state has an array named {shown(name)}: {wanted}")
    return name


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(int(x) for x in np.atleast_1d(np.asarray(shape, int)))
    except (TypeError, ValueError):
        sizes = (0,)
    if any(size < 1 for size in sizes):
        raise ValueError(f"the state has {name!r} of shape {shown(shape)}: wanted positive sizes")
    return sizes


def _named(state: Any) -> dict[str, Any]:
    """Returns the arrays of a state by their names among the inputs and outputs of a step."""
    return {f"state_{name}": x for name, x in state._asdict().items()}
