"""Vector environments of traced tasks beside gymnasium's own, with the same task in NumPy."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import featherlane as fl

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from featherlane.interop.gymnasium import EpisodicTask, TracedVectorEnv
from featherlane.interop.random_streams import RandomStreams

MODES = [*AutoresetMode]
ARM = fl.load("double_pendulum")


class Swing(EpisodicTask):
    """A double pendulum with a torque on each joint, and its goal."""

    state, actions, longest, random = {"q": 2, "v": 2, "goal": ()}, 2, 7, 4

    def start(self, random):
        return {"q": 2 * random[:2] - 1, "v": random[2:] - 0.5, "goal": random[3]}

    def advance(self, state, action, noise):
        moved = ARM.step(state.q, state.v, action, 0.02)
        return state._replace(q=moved.q, v=moved.v)

    def observe(self, state):
        return np.concatenate([np.sin(state.q), state.v, state.q[:1] - state.goal])

    def reward(self, state, action, after):
        return -((after.q[0] - state.goal) ** 2) - 0.1 * np.sum(action**2)

    def terminated(self, state):
        return np.abs(state.q[1]) > 1.1


class Shaken(Swing):
    noise = 3

    def advance(self, state, action, noise):
        state = super().advance(state, action, ())
        return state._replace(v=state.v + noise[:2] - noise[2])


class Single(gymnasium.Env):
    """One environment of the same task: its functions on NumPy's arrays, nothing traced."""

    def __init__(self):
        self.task = Swing()
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.stream = RandomStreams(1)
            self.stream.seed([seed], [True])
        state = self.task.start(self.stream.draw([0], 4, np.float64)[0])
        self.state, self.age = State(**state), 0
        return self.task.observe(self.state), {}

    def step(self, action):
        before, self.age = self.state, self.age + 1
        self.state = self.task.advance(before, action, ())
        ends = bool(self.task.terminated(self.state)), self.age >= self.task.longest
        reward = self.task.reward(before, action, self.state)
        return self.task.observe(self.state), reward, *ends, {}


State = TracedVectorEnv(Swing(), 1).state.__class__


def restarted(envs, seen, over, mode):
    """Observations after a reset of what is over, where nobody else does it."""
    if mode is AutoresetMode.DISABLED and over.any():
        return envs.reset(options={"reset_mask": over})[0]
    return seen


@pytest.mark.parametrize("mode", MODES)
def test_steps_are_those_of_gymnasium_with_the_same_task_in_numpy(mode):
    envs = TracedVectorEnv(Swing(), 6, autoreset_mode=mode, dtype=float)
    peers = SyncVectorEnv([Single] * 6, autoreset_mode=mode)
    assert_allclose(envs.reset(seed=3)[0], peers.reset(seed=3)[0], atol=1e-14)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(40):
        action = rng.uniform(-1, 1, (6, 2))
        *ours, info = envs.step(action)
        *theirs, told = peers.step(action)
        for x, y in zip(ours, theirs, strict=True):
            assert_allclose(x, y, atol=1e-12)
        assert ours[2].dtype == ours[3].dtype == bool
        assert ("final_obs" in info) == ("final_obs" in told)
        if info:
            rows = info["_final_obs"]
            assert np.array_equal(rows, told["_final_obs"])
            assert_allclose(info["final_obs"][rows], np.stack(told["final_obs"][rows]), atol=1e-12)
        over = ours[2] | ours[3]
        seen = restarted(envs, ours[0], over, mode), restarted(peers, theirs[0], over, mode)
        assert_allclose(*seen, atol=1e-12)
        ends += ours[2].sum() + 1000 * ours[3].sum()
    assert ends % 1000 > 3  # some terminated
    assert ends > 3000  # and some were cut


@pytest.mark.parametrize("mode", MODES)
def test_an_environment_does_the_same_whatever_its_neighbours(mode):
    def run(count, seed, first):
        envs = TracedVectorEnv(Shaken(), count, autoreset_mode=mode)
        rows, mine = [envs.reset(seed=seed)[0]], slice(first, first + 2)
        for _ in range(30):
            seen, reward, ended, cut, _ = envs.step(np.full((count, 2), 0.3))
            restarted(envs, seen, ended | cut, mode)
            rows.append(np.column_stack([seen, reward, ended, cut]))
        return [x[mine] for x in rows]

    few, many = run(2, 7, 0), run(67, 2, 5)
    assert all(map(np.array_equal, few, many))
    assert not any(map(np.array_equal, few, run(2, 8, 0)))
    listed = run(3, [1, 7, 8], 1)
    assert all(map(np.array_equal, few, listed))


def test_resets_without_a_seed_go_on_and_masks_leave_the_others():
    envs = TracedVectorEnv(Swing(), 4, autoreset_mode=AutoresetMode.DISABLED)
    first, _ = envs.reset(seed=0)
    assert not np.array_equal(envs.reset()[0], first)
    assert np.array_equal(envs.reset(seed=0)[0], first)
    second, _ = envs.reset(options={"reset_mask": np.array([True, False, False, True])})
    assert np.array_equal(second[1:3], first[1:3])
    assert not np.any(second[[0, 3]] == first[[0, 3]])
    unseeded = [TracedVectorEnv(Swing(), 4).reset()[0] for _ in range(2)]
    assert not np.array_equal(*unseeded)


class Bursting(Swing):
    def advance(self, state, action, noise):
        return state._replace(q=state.q / (action > 0), v=0 * state.v)


def test_a_step_that_is_not_finite_leaves_the_state_and_ends_the_episode():
    envs = TracedVectorEnv(Bursting(), 3, autoreset_mode=AutoresetMode.DISABLED)
    seen, _ = envs.reset(seed=0)
    after, reward, ended, cut, _ = envs.step(np.array([[1, 1], [1, 0], [1, 1.0]]))
    assert ended.tolist() == [False, True, False]
    assert (reward[1], cut.any()) == (0, False)
    assert np.array_equal(after[1], seen[1])
    assert np.isfinite(after).all()


class Walk(EpisodicTask):
    """A random walk on a line: one number is the state."""

    state, actions, noise = {"x": ()}, 1, 1
    start = lambda self, random: {"x": random[0]}
    advance = lambda self, state, action, noise: state._replace(x=state.x + action[0] + noise[0])
    observe = lambda self, state: np.reshape(state.x, (1,))
    reward = lambda self, state, action, after: after.x - state.x


def test_a_state_of_one_number_and_episodes_without_end():
    envs = TracedVectorEnv(Walk(), 4)
    before, _ = envs.reset(seed=0)
    for _ in range(20):
        after, reward, ended, cut, _ = envs.step(np.ones((4, 1)))
        assert_allclose(reward, (after - before)[:, 0], rtol=1e-5)
        assert np.all((reward >= 1) & (reward < 2))
        assert not (ended | cut).any()
        before = after
    envs.state = envs.state._replace(x=np.arange(4, dtype=np.float32))
    assert envs.observe()[:, 0].tolist() == [0, 1, 2, 3]


def test_uniform_numbers_are_uniform():
    streams = RandomStreams(200)
    streams.seed(range(200), np.ones(200, bool))
    first, second = (streams.draw(slice(None), 100, np.float32) for _ in range(2))
    x = np.concatenate([first, second], axis=1)
    assert x.dtype == np.float32
    assert 0 <= x.min() < 1e-3
    assert 0.999 < x.max() < 1
    assert x.mean() == pytest.approx(0.5, abs=0.006)  # four deviations
    assert np.abs(np.corrcoef(x) - np.eye(200)).max() < 0.35  # five deviations
    assert len(np.unique(x)) > 39_900


def test_wrappers_of_gymnasium_take_them():
    envs = RecordEpisodeStatistics(TracedVectorEnv(Swing(), 5))
    envs.action_space.seed(0)
    seen, _ = envs.reset(seed=1)
    lengths = []
    for _ in range(30):
        assert envs.observation_space.contains(seen)
        seen, *_, info = envs.step(envs.action_space.sample())
        lengths += [*info["episode"]["l"][info["_episode"]]] if info else []
    assert max(lengths) == 7
    assert min(lengths) < 7


def test_arrays_of_jax_come_and_go_without_a_copy():
    jnp = pytest.importorskip("jax").numpy
    envs = TracedVectorEnv(Swing(), 64, arrays="jax")
    plain = TracedVectorEnv(Swing(), 64)
    seen, _ = envs.reset(seed=0)
    assert np.array_equal(seen, plain.reset(seed=0)[0])
    action = jnp.full((64, 2), 0.25)
    for x, y in zip(envs.step(action)[:4], plain.step(np.full((64, 2), 0.25))[:4], strict=True):
        assert isinstance(x, type(action))
        assert np.array_equal(x, y)
    array = TracedVectorEnv(Swing(), 4096).observe()  # JAX copies small ones that are not aligned
    assert envs._out(array).unsafe_buffer_pointer() == array.ctypes.data


def test_tensors_come_and_go_without_a_copy():
    torch = pytest.importorskip("torch")
    envs = TracedVectorEnv(Swing(), 64, arrays="torch")
    envs.reset(seed=0)
    seen, reward, ended, cut, _ = envs.step(torch.full((64, 2), 0.25))
    assert (seen.dtype, reward.dtype, ended.dtype, cut.dtype) == (
        *(torch.float32, torch.float32),
        *(torch.bool, torch.bool),
    )
    array = envs.observe()
    assert envs._out(array).data_ptr() == array.ctypes.data


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))])
def test_copies_go_on_as_the_original_does(copied, mode):
    envs, action = TracedVectorEnv(Shaken(), 3, autoreset_mode=mode), np.full((3, 2), 0.3)
    envs.reset(seed=0)
    envs.step(action)
    twin = copied(envs)
    for _ in range(9):
        pairs = [*zip(envs.step(action)[:4], twin.step(action)[:4], strict=True)]
        assert all(np.array_equal(*pair) for pair in pairs)
    assert np.array_equal(envs.reset()[0], twin.reset()[0])


def test_states_are_assigned_in_any_dtype_and_resets_go_on():
    envs = TracedVectorEnv(Swing(), 3)
    first, _ = envs.reset(seed=0)
    envs.state = {"q": np.zeros((3, 2)), "v": [[0, 0], [1, 2], [0, 0]], "goal": np.ones(3)}
    assert envs.observe()[1].tolist() == [0, 0, 1, 2, -1]
    seen, _ = envs.reset(seed=0, options={"reset_mask": np.array([True, False, False])})
    assert np.array_equal(seen[0], first[0])
    assert seen[1].tolist() == [0, 0, 1, 2, -1]


def test_episodes_may_begin_without_randomness():
    class Still(Swing):
        random = 0
        start = lambda self, random: GOOD | {"goal": 0.5 + len(random)}

    envs = TracedVectorEnv(Still(), 3)
    for _ in range(2):
        assert envs.reset()[0].tolist() == [[0, 0, 0, 0, -0.5]] * 3
        envs.step(np.ones((3, 2)))


class Wrong(Swing):
    def __init__(self, method, result):
        setattr(self, method, lambda *_: result)


def having(**attributes):
    return lambda: TracedVectorEnv(type("Odd", (Swing,), attributes)(), 3)


def assigned(**arrays):
    envs = TracedVectorEnv(Swing(), 3)
    envs.state = arrays


STATES = {"q": np.zeros((3, 2)), "v": np.zeros((3, 2)), "goal": np.zeros(3)}


GOOD = {"q": np.zeros(2), "v": np.zeros(2), "goal": 0.0}


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: TracedVectorEnv(Swing, 3), "wanted an instance of EpisodicTask"),
        (lambda: TracedVectorEnv(Swing(), 0), "num_envs is 0"),
        (lambda: TracedVectorEnv(Swing(), 3, arrays="tensor"), "arrays is 'tensor'"),
        (lambda: TracedVectorEnv(Wrong("start", {"q": 1}), 3), "start returns q: wanted a state"),
        (lambda: TracedVectorEnv(Wrong("start", 3.0), 3), "start returns 3.0"),
        (
            lambda: TracedVectorEnv(Wrong("advance", {**GOOD, "v": np.zeros(3)}), 3),
            r"advance returns 'v' of shape \(3,\): wanted \(2,\)",
        ),
        (lambda: TracedVectorEnv(Swing(), 3).reset(seed=[1, 2]), r"seed is \[1, 2\]"),
        (lambda: TracedVectorEnv(Swing(), 3).reset(seed=-1), "seed has -1"),
        (lambda: TracedVectorEnv(Swing(), 3).reset(seed=1.5), "seed is 1.5"),
        (
            lambda: TracedVectorEnv(Swing(), 3).reset(options={"reset_mask": [1, 0, 1]}),
            "reset_mask is int64 of shape",
        ),
        (lambda: TracedVectorEnv(Swing(), 3).step(np.zeros((2, 2))), "actions has shape"),
        (lambda: TracedVectorEnv(Swing(), 3).step("left"), "actions is 'left': wanted real"),
        (lambda: TracedVectorEnv(Swing(), 3, dtype=np.float16), "dtype is <.*float16'>: wanted"),
        (lambda: TracedVectorEnv(Swing(), 3, dtype=int), "dtype is <class 'int'>: wanted float32"),
        (lambda: TracedVectorEnv(Swing(), 3, dtype=None), "dtype is None: wanted float32"),
        (lambda: TracedVectorEnv(Swing(), 3, dtype="single number"), "dtype is 'single number'"),
        (
            lambda: TracedVectorEnv(Swing(), 3, autoreset_mode="SAME_STEP"),
            "autoreset_mode is 'SAME_STEP': wanted one of .*did you mean 'SameStep'",
        ),
        (
            lambda: TracedVectorEnv(Wrong("reward", np.zeros(2)), 3),
            r"reward returns an array of shape \(2,\): wanted one of shape \(\)",
        ),
        (lambda: TracedVectorEnv(Wrong("reward", None), 3), "reward returns None: wanted"),
        (lambda: TracedVectorEnv(Wrong("terminated", np.zeros(1)), 3), r"terminated .*\(1,\)"),
        (lambda: TracedVectorEnv(Wrong("observe", 1.0), 3), "observe returns 1.0: wanted one ve"),
        (lambda: TracedVectorEnv(Wrong("observe", np.eye(2)), 3), r"observe .* \(2, 2\): wanted"),
        (having(actions=0), "actions is 0: wanted a whole number"),
        (having(actions=(2,)), r"actions is \(2,\): wanted a whole number"),
        (having(state={"_x": 2}), "the state has an array named '_x': wanted"),
        (having(state={"x": -2}), "the state has 'x' of shape -2: wanted"),
        (having(state=3), "state is 3: wanted a dict"),
        (having(bounds=3), r"bounds is 3: wanted \(least, greatest\)"),
        (having(bounds=(-1, np.ones(3))), r"bounds is \(-1, .*: wanted .* of shape \(2,\)"),
        (having(longest=0), "longest is 0: wanted"),
        (having(longest=-1), "longest is -1: wanted"),
        (having(longest="ten"), "longest is 'ten': wanted"),
        (having(random=-1), "random is -1: wanted"),
        (having(noise=1.5), "noise is 1.5: wanted"),
        (lambda: assigned(**STATES | {"q": np.zeros(2)}), r"q of state has shape \(2,\): wanted"),
        (lambda: assigned(**STATES | {"v": "fast"}), "v of state is 'fast': wanted real"),
        (lambda: assigned(q=0), "state is q: wanted arrays named q, v, goal"),
    ],
)
def test_errors_name_the_argument(make, told):
    with pytest.raises((TypeError, ValueError), match=told):
        make()
