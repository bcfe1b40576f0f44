"""Gymnasium: `TracedVectorEnv` makes a vector environment of a task whose functions are traced.

Physics, observations, rewards, ends of episodes and their new beginnings are one compiled function,
which is called once a step for all environments. pip install 'featherlane[gymnasium]'.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

import numpy as np

from featherlane.api.compile import compile
from featherlane.errors import one_of, shown
from featherlane.functions.arguments import counted
from featherlane.functions.foreign_arrays import viewed
from featherlane.interop.episodic_task import EpisodicTask, TaskGraphs
from featherlane.interop.random_streams import RandomStreams, checked_seeds
from featherlane.interop.wrapped import required

__all__ = ["AutoresetMode", "EpisodicTask", "TracedVectorEnv"]

spaces = required("gymnasium.spaces", "gymnasium")
VectorEnv: Any = required("gymnasium.vector", "gymnasium").VectorEnv
AutoresetMode: Any = import_module("gymnasium.vector").AutoresetMode
batch_space = import_module("gymnasium.vector.utils").batch_space

MODULES = {"numpy": "numpy", "torch": "torch", "jax": "jax.numpy"}


class TracedVectorEnv(VectorEnv):
    """A `gymnasium.vector.VectorEnv` of so many environments of a task.

    `reset` takes options={"reset_mask": booleans (num_envs,)} in all modes. A seed of `reset` is
    one for each environment, or the first of consecutive ones; an environment does the same for a
    seed and actions whatever the number of environments. A step whose result is not finite leaves
    the state as it was, with reward 0, and terminates the episode.

    Observations, rewards and ends share memory with the results of the compiled function; actions
    of any package are read without a copy if their dtype is `dtype`. They are used as they are:
    wrappers, such as gymnasium's `ClipAction`, clip those beyond the bounds. In SAME_STEP `info`
    has `final_obs` and `_final_obs`, and no `final_info`, as episodes have no `info` of their last
    step.

    state: the named tuple of the arrays (num_envs, ...) of all states. It may be replaced, by one
    or by a dict of the same names and shapes. Copies and pickles compile their functions anew, so
    that pickles need a task that can be pickled.

    Arguments:
        task: the task of all environments
        num_envs: number of environments
        autoreset_mode: when episodes begin again, as gymnasium defines it
        arrays: the package of observations, rewards and ends: "numpy", "torch" or "jax"
        dtype: float32 or float64
        threads: largest number of threads; None: as many cores as save time

    Examples:
        >>> from featherlane.interop.gymnasium import EpisodicTask, TracedVectorEnv
        >>> class Reach(EpisodicTask):
        ...     state, actions, longest, random = {"q": 2, "v": 2}, 2, 100, 2
        ...     def start(self, random):
        ...         return {"q": 2 * random - 1, "v": 0 * random}
        ...     def advance(self, state, action, noise):
        ...         return arm.step(state.q, state.v, action, 0.02)
        ...     def observe(self, state):
        ...         return np.concatenate([state.q, state.v])
        ...     def reward(self, state, action, after):
        ...         return -np.sum(after.q**2)
        >>> envs = TracedVectorEnv(Reach(), 1000)
        >>> observations, info = envs.reset(seed=0)
        >>> observations, rewards, terminated, truncated, info = envs.step(np.zeros((1000, 2)))
        >>> observations.shape, rewards.dtype
        ((1000, 4), dtype('float32'))
    """

    def __init__(
        self,
        task: EpisodicTask,
        num_envs: int,
        *,
        autoreset_mode: Any = AutoresetMode.NEXT_STEP,
        arrays: Literal["numpy", "torch", "jax"] = "numpy",
        dtype: Any = np.float32,
        threads: int | None = None,
    ) -> None:
        if not isinstance(task, EpisodicTask):
            raise TypeError(f"task is {shown(task)}: wanted an instance of EpisodicTask")
        if arrays not in [*MODULES]:
            raise ValueError(f"arrays is {shown(arrays)}: {one_of(arrays, MODULES)}")
        self.task, self.num_envs = task, counted("num_envs", num_envs)
        self.mode, self.dtype = _mode(autoreset_mode), _dtype(dtype)
        self.metadata = {"autoreset_mode": self.mode}
        self.arrays, self.threads = arrays, threads
        import_module(MODULES[arrays])  # whoever lacks it reads so now
        self._compile()
        self._set_spaces()
        self.streams = RandomStreams(num_envs)
        shapes = self.graphs.shapes.values()
        self._state: Any = self.graphs.tuple(*(self._zeros(*shape) for shape in shapes))
        self.random, self.age = self._zeros(self.graphs.random), self._zeros()
        self.over = np.zeros(num_envs, bool)
        everyone = np.arange(num_envs)
        self._draw(everyone)
        self._restart(everyone)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the attributes of a copy or pickle, without what `_compile` sets."""
        compiled = ("graphs", "_begin", "_observe", "_step", "_names")
        kept = {name: x for name, x in self.__dict__.items() if name not in compiled}
        return kept | {"_state": tuple(self._state)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._compile()
        self._state = self.graphs.tuple(*self._state)

    @property
    def state(self) -> Any:
        """The named tuple of the arrays (num_envs, ...) of all states.

        It may be replaced by one, or by a dict of the same names. Raises ValueError for others.
        """
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        named, shapes = state._asdict() if hasattr(state, "_asdict") else state, self.graphs.shapes
        if not isinstance(named, Mapping) or set(named) != set(shapes):
            names = ", ".join(map(str, named)) if isinstance(named, Mapping) else shown(state)
            raise ValueError(f"state is {names}: wanted arrays named {', '.join(shapes)}")
        arrays = {x: self._array(f"{x} of state", named[x], shape) for x, shape in shapes.items()}
        self._state = self.graphs.tuple(**arrays)

    def _compile(self) -> None:
        """Sets the graphs of the task and their compiled functions."""
        self.graphs = TaskGraphs(self.task)
        self._begin = compile(self.graphs.begin, {"random": self.graphs.random})
        self._observe = compile(self.graphs.observe, self.graphs.shapes)
        self._step, self._names = self._compiled_step()

    def _compiled_step(self) -> tuple[Any, list[str]]:
        """Returns the compiled step of the mode, and the names of its inputs."""
        step, more = {
            AutoresetMode.NEXT_STEP: (self.graphs.step_or_begin, ("over", "random")),
            AutoresetMode.SAME_STEP: (self.graphs.step_and_begin, ("random",)),
            AutoresetMode.DISABLED: (self.graphs.step, ()),
        }[self.mode]
        inputs = self.graphs.inputs(*more)
        run = lambda *arrays: step(**dict(zip(inputs, arrays, strict=True)))
        return compile(run, inputs), [*inputs]

    def _set_spaces(self) -> None:
        shape = (self.graphs.actions,)
        try:
            low, high = (np.full(shape, bound, self.dtype) for bound in self.task.bounds)
        except (TypeError, ValueError):
            wanted = f"wanted (least, greatest), each a number or of shape {shape}"
            raise ValueError(f"bounds is {shown(self.task.bounds)}: {wanted}") from None
        self.single_action_space = spaces.Box(low, high, dtype=self.dtype)
        seen = self._observe.outputs["out"]
        self.single_observation_space = spaces.Box(-np.inf, np.inf, seen, self.dtype)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begins the episodes of all environments, or of those of a mask, and returns the
        observations of all.
        """
        mask = self._mask((options or {}).get("reset_mask"))
        seeded = self.streams.seed(checked_seeds(seed, self.num_envs), mask)
        self._draw(seeded)
        self._restart(np.flatnonzero(mask))
        return self._out(self.observe()), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Moves all environments by one step, in which episodes begin again as the mode says."""
        again = self.over
        result = self._step(*self._inputs(actions), threads=self.threads)
        self._state, self.age = self.graphs.tuple(*result[: len(self._state)]), result.age
        terminated, truncated = result.terminated != 0, result.truncated != 0
        self.over, info = terminated | truncated, {}
        if self.mode == AutoresetMode.SAME_STEP:
            again, self.over = self.over, np.zeros_like(self.over)
            if again.any():
                info = {"final_obs": self._out(result.last_observation), "_final_obs": again}
        if self.mode != AutoresetMode.DISABLED:
            self._draw(np.flatnonzero(again))
        ends = map(self._out, (result.observation, result.reward, terminated, truncated))
        return *ends, info  # type: ignore[return-value]

    def observe(self) -> np.ndarray:
        """Returns the observations of `state`, without a step."""
        return self._observe(*self._state, threads=self.threads)

    def draw_noise(self, actions: np.ndarray) -> np.ndarray:
        """Returns the noise (num_envs, noise) of a step. Another method in its place can bring what
        is computed elsewhere, from `state` and the actions.
        """
        return self.streams.draw(slice(None), self.graphs.noise, self.dtype)

    def _inputs(self, actions: Any) -> list[np.ndarray]:
        """Returns the inputs of a step in their order."""
        actions = self._array("actions", actions, (self.graphs.actions,))
        state = {f"state_{name}": x for name, x in self._state._asdict().items()}
        inputs = {**state, "action": actions, "age": self.age, "random": self.random}
        if "over" in self._names:
            inputs["over"] = self.over.astype(self.dtype)
        if "noise" in self._names:
            inputs["noise"] = self.draw_noise(actions)
        return [inputs[name] for name in self._names]

    def _restart(self, rows: np.ndarray) -> None:
        """Begins the episodes of some environments."""
        begun = self._begin(self.random[rows])
        begun = begun if isinstance(begun, tuple) else (begun,)  # a state of one array
        self._state = self.graphs.tuple(*map(np.copy, self._state))
        for array, values in zip(self._state, begun, strict=True):
            array[rows] = values
        self.age = self.age.copy()
        self.age[rows], self.over[rows] = 0, False
        self._draw(rows)

    def _draw(self, rows: np.ndarray) -> None:
        """Draws the numbers with which the next episodes of some environments begin."""
        if len(rows):
            self.random[rows] = self.streams.draw(rows, self.graphs.random, self.dtype)

    def _mask(self, mask: Any) -> np.ndarray:
        """Returns the mask of a reset, by default of all environments."""
        mask = np.ones(self.num_envs, bool) if mask is None else np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != bool:
            raise ValueError(
                f"reset_mask is {mask.dtype} of shape {mask.shape}: wanted booleans of shape "
                f"({self.num_envs},)"
            )
        return mask

    def _array(self, name: str, x: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Returns an array of all environments in the dtype of their functions. Raises ValueError,
        which names it, for no numbers and other shapes.
        """
        array, wanted = np.asarray(viewed(name, x)), (self.num_envs, *shape)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} is {shown(x)}: wanted real numbers of shape {wanted}")
        if array.shape != wanted:
            raise ValueError(f"{name} has shape {array.shape}: wanted {wanted}")
        return np.asarray(array, self.dtype)

    def _zeros(self, *shape: int) -> np.ndarray:
        return np.zeros((self.num_envs, *shape), self.dtype)

    def _out(self, array: np.ndarray) -> Any:
        """Returns an array of the package that was asked for, which shares memory."""
        if self.arrays == "numpy":
            return array
        return import_module(MODULES[self.arrays]).from_dlpack(array)


def _mode(mode: Any) -> Any:
    """Returns a mode of gymnasium, which its value says too. Raises ValueError."""
    values = {x.value: x for x in AutoresetMode}
    if mode not in [*AutoresetMode, *values]:
        raise ValueError(f"autoreset_mode is {shown(mode)}: {one_of(mode, values)}")
    return AutoresetMode(mode)


def _dtype(dtype: Any) -> Any:
    """Returns the type of numbers of the functions. Raises ValueError."""
    try:
        if dtype is not None and np.dtype(dtype) in (np.float32, np.float64):
            return np.dtype(dtype).type
    except TypeError:  # no dtype of NumPy
        pass
    raise ValueError(f"dtype is {shown(dtype)}: wanted float32 or float64")
