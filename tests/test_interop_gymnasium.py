"""Vector environments of traced tasks beside gymnasium's own, with the same task in NumPy."""

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


class Wrong(Swing):
    def __init__(self, method, result):
        setattr(self, method, lambda *_: result)


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
        (lambda: TracedVectorEnv(Swing(), 3).step(np.zeros((2, 2))), "actions have shape"),
    ],
)
def test_errors_name_the_argument(make, told):
    with pytest.raises((TypeError, ValueError), match=told):
        make()
