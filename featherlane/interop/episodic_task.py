"""Tasks of reinforcement learning whose functions are traced, and the graphs of their steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from featherlane.errors import shown
from featherlane.functions.arguments import counted

Shape = int | Sequence[int]


class EpisodicTask(ABC):
    """A task of one robot, as functions of its state that `interop.gymnasium.TracedVectorEnv`
    traces: write them with NumPy, methods of models and traced functions, without branches on
    values. The state is a named tuple of arrays; functions return it, or a dict by the same names.

    state: the shape of each array of the state by name. actions: the shape of an action. bounds:
    its least and greatest values. longest: the steps after which an episode is truncated, None for
    never. random, noise: how many uniform numbers in [0, 1) `start` and `advance` get.
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
        """Returns the state after a step with an action. noise (`noise`,): uniform numbers."""

    @abstractmethod
    def observe(self, state: Any) -> Any:
        """Returns the observation of a state, one vector."""

    @abstractmethod
    def reward(self, state: Any, action: Any, after: Any) -> Any:
        """Returns the reward of a step from one state to the state after it."""

    def terminated(self, state: Any) -> Any:
        """Returns whether a state ends the episode: by default never."""
        return False


class TaskGraphs:
    """The functions of a task that are compiled. Those of a step take and return arrays by name."""

    def __init__(self, task: EpisodicTask) -> None:
        self.task = task
        self.shapes = {name: _shape(name, shape) for name, shape in task.state.items()}
        self.tuple = namedtuple("State", self.shapes)  # type: ignore[misc]
        self.random = counted("random", task.random)

    def inputs(self, *names: str) -> dict[str, Any]:
        """Returns the shapes of a step's inputs. names: those of its way of beginning again."""
        noise = {"noise": self.task.noise} if self.task.noise else {}
        shapes = {"over": (), "random": self.random}
        state = {f"state_{name}": shape for name, shape in self.shapes.items()}
        always = {**state, "action": self.task.actions, "age": ()}
        return {**always, **noise, **{name: shapes[name] for name in names}}

    def begin(self, random: Any) -> Any:
        """Returns the state in which an episode begins."""
        return self._state("start", self.task.start(random))

    def observe(self, *state: Any) -> Any:
        """Returns the observation of a state."""
        return self.task.observe(self.tuple(*state))

    def step(self, **inputs: Any) -> dict[str, Any]:
        """Returns a step after which no episode begins again."""
        after, ends = self._moved(inputs)
        return {**_named(after), "observation": self.task.observe(after), **ends}

    def step_or_begin(self, *, over: Any, random: Any, **inputs: Any) -> dict[str, Any]:
        """Returns a step; where `over`, the first state of an episode with reward 0."""
        moved, ends = self._moved(inputs)
        after = self._where(over != 0, self.begin(random), moved)
        ends = {name: np.where(over != 0, 0.0, x) for name, x in ends.items()}
        return {**_named(after), "observation": self.task.observe(after), **ends}

    def step_and_begin(self, *, random: Any, **inputs: Any) -> dict[str, Any]:
        """Returns a step; where it ends an episode, with the first state of the next one, and the
        observation that ended it as `last_observation`.
        """
        moved, ends = self._moved(inputs)
        over = ends["terminated"] | ends["truncated"]
        after = self._where(over, self.begin(random), moved)
        seen = {"observation": self.task.observe(after), **ends}
        seen |= {"age": np.where(over, 0.0, ends["age"])}
        return {**_named(after), **seen, "last_observation": self.task.observe(moved)}

    def _moved(self, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns the state after a step, the state before where that is not finite, with the
        reward, the ends of the episode and its age.
        """
        task, action = self.task, inputs["action"]
        before = self.tuple(**{name: inputs[f"state_{name}"] for name in self.shapes})
        moved = self._state("advance", task.advance(before, action, inputs.get("noise", ())))
        reward, age = task.reward(before, action, moved), inputs["age"] + 1
        finite = np.isfinite(sum(np.sum(x) for x in moved) + reward)
        after = self._where(finite, moved, before)
        ends = {
            "reward": np.where(finite, reward, 0.0),
            "terminated": task.terminated(after) | ~finite,
            "truncated": age >= (np.inf if task.longest is None else task.longest),
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


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(int(x) for x in np.atleast_1d(np.asarray(shape, int)))
    except (TypeError, ValueError):
        sizes = (0,)
    if 0 in sizes:
        raise ValueError(f"the state has {name!r} of shape {shown(shape)}: wanted positive sizes")
    return sizes


def _named(state: Any) -> dict[str, Any]:
    """Returns the arrays of a state by their names among the inputs and outputs of a step."""
    return {f"state_{name}": x for name, x in state._asdict().items()}
