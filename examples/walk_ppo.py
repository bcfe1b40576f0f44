"""A Go2, or a G1, learns to walk: PPO (Schulman et al. 2017) in PyTorch, with 1,024 environments of
`walking.py` on one core.

    pip install 'featherlane[gymnasium,torch]'
    python examples/walk_ppo.py [--robot g1] [--iterations 200] [--seed 0] [--save policy.npz]
    python examples/walk_ppo.py --simulator mujoco --iterations 10

`walk_policy.py` shows how a policy walks.
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import torch
import walking
from torch import nn
from walk_policy import judge, network_of, simulator

from featherlane.interop.gymnasium import AutoresetMode, TracedVectorEnv

STEPS, EPOCHS, BATCHES = 24, 4, 4
GAMMA, LAMBDA, CLIP, ENTROPY, KL = 0.99, 0.95, 0.2, 0.004, 0.01


class Agent(nn.Module):
    """A Gaussian policy and a value of observations, which are normalised by running moments."""

    def __init__(self, seen: int, actions: int, width: int = 64) -> None:
        super().__init__()
        self.actor, self.critic = network(seen, actions, width), network(seen, 1, width)
        self.log_std = nn.Parameter(torch.zeros(actions))
        for name, value in (("mean", 0.0), ("var", 1.0), ("count", 1e-4)):
            self.register_buffer(name, torch.full((seen if name != "count" else 1,), value))
        with torch.no_grad():
            self.actor[-1].weight *= 0.01

    def normalised(self, observations: torch.Tensor) -> torch.Tensor:
        return ((observations - self.mean) / (self.var + 1e-6).sqrt()).clip(-6, 6)

    def learn_moments(self, observations: torch.Tensor) -> None:
        var, mean = torch.var_mean(observations, 0, correction=0)
        share, away = len(observations) / (self.count + len(observations)), mean - self.mean
        self.mean += share * away
        self.var += share * (var - self.var) + share * (1 - share) * away**2
        self.count += len(observations)


def network(inputs: int, outputs: int, width: int) -> nn.Sequential:
    layers = [nn.Linear(inputs, width), nn.ELU(), nn.Linear(width, width), nn.ELU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Data(NamedTuple):
    """What a stretch of steps gave, each (STEPS, environments, ...)."""

    seen: Any  # normalised observations
    action: Any
    mean: Any
    value: Any
    reward: Any
    over: Any


def log_density(action: Any, mean: Any, log_std: Any) -> Any:
    return (-0.5 * ((action - mean) / log_std.exp()) ** 2 - log_std).sum(-1)


class Learner:
    """PPO with a learning rate that follows the change of the policy."""

    def __init__(self, envs: TracedVectorEnv, seed: int) -> None:
        torch.manual_seed(seed)
        self.envs, self.spent = envs, 0.0  # s of processors, by the environments
        self.agent = Agent(*envs.single_observation_space.shape, *envs.single_action_space.shape)
        self.rate, self.optimizer = 1e-3, torch.optim.Adam(self.agent.parameters())
        self.observation, _ = envs.reset(seed=seed * 10**6)
        longest = envs.task.longest
        envs.age[:] = np.random.default_rng(seed).integers(0, longest, envs.num_envs)

    @torch.no_grad()
    def collect(self) -> tuple[Data, torch.Tensor]:
        """Steps all environments, and returns what they gave with its advantages. The value of the
        last state stands for what would follow an episode that is cut.
        """
        agent, rows, raw = self.agent, [], []
        for _ in range(STEPS):
            raw.append(self.observation)
            seen = agent.normalised(self.observation)
            mean, value = agent.actor(seen), agent.critic(seen)[:, 0]
            action = mean + agent.log_std.exp() * torch.randn_like(mean)
            before = process_time()
            self.observation, reward, ended, cut, info = self.envs.step(action)
            self.spent += process_time() - before
            if cut.any():
                last = agent.normalised(info["final_obs"][cut])
                reward = reward.index_put((cut,), GAMMA * agent.critic(last)[:, 0], accumulate=True)
            rows.append(Data(seen, action, mean, value, reward, ended | cut))
        data = Data(*map(torch.stack, zip(*rows, strict=True)))
        advantages = self.advantages(data)
        self.agent.learn_moments(torch.cat(raw))
        return data, advantages

    @torch.no_grad()
    def advantages(self, data: Data) -> torch.Tensor:
        """Generalised advantage estimates (Schulman et al. 2016)."""
        following = self.agent.critic(self.agent.normalised(self.observation))[:, 0]
        advantage, rows = torch.zeros_like(following), []
        for t in reversed(range(STEPS)):
            on = 1 - data.over[t].float()
            error = data.reward[t] + GAMMA * on * following - data.value[t]
            advantage = error + GAMMA * LAMBDA * on * advantage
            following = data.value[t]
            rows.append(advantage)
        return torch.stack(rows[::-1])

    def update(self, data: Data, advantage: torch.Tensor) -> None:
        agent, std = self.agent, self.agent.log_std.detach().clone()
        seen, action, old, value = (x.flatten(0, 1) for x in data[:4])
        advantage = advantage.flatten()
        target = value + advantage
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        density = log_density(action, old, std)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(seen)).chunk(BATCHES):
                mean, v = agent.actor(seen[rows]), agent.critic(seen[rows])[:, 0]
                ratio = (log_density(action[rows], mean, agent.log_std) - density[rows]).exp()
                gain = torch.minimum(
                    ratio * advantage[rows], ratio.clip(1 - CLIP, 1 + CLIP) * advantage[rows]
                )
                loss = -gain.mean() + (v - target[rows]).square().mean()
                loss = loss - ENTROPY * agent.log_std.sum()
                self.optimizer.param_groups[0]["lr"] = self.rate
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
                self.optimizer.step()
                self.follow(mean.detach(), old[rows], std)

    @torch.no_grad()
    def follow(self, mean: torch.Tensor, old: torch.Tensor, std: torch.Tensor) -> None:
        """Halves the rate, nearly, after large changes of the policy, and raises it after small."""
        new = self.agent.log_std
        spread = (std.exp() ** 2 + (mean - old) ** 2) / (2 * new.exp() ** 2)
        change = (new - std + spread - 0.5).sum(-1).mean()
        factor = 1 / 1.5 if change > 2 * KL else 1.5 if change < KL / 2 else 1.0
        self.rate = min(max(self.rate * factor, 1e-5), 1e-2)


def weights(agent: Agent) -> dict[str, np.ndarray]:
    """The policy's numbers by name, as `network_of` takes them."""
    layers = {f"layer{i}": x.detach().numpy() for i, x in enumerate(agent.actor.parameters())}
    return {"mean": agent.mean.numpy(), "scale": (agent.var + 1e-6).sqrt().numpy(), **layers}


def train(args: argparse.Namespace, task: walking.Walking) -> dict[str, np.ndarray]:
    """Learns for so many iterations, and prints how it goes on."""
    options = {"autoreset_mode": AutoresetMode.SAME_STEP, "threads": args.threads}
    envs = simulator(args.simulator)(task, args.envs, arrays="torch", **options)
    learner = Learner(envs, args.seed)
    begin, spent = perf_counter(), process_time()
    for i in range(1, args.iterations + 1):
        learner.update(*learner.collect())
        if i % 10 == 0:
            away = envs.state.v[:, :2] - envs.state.command[:, :2]
            print(f"iteration {i}, {perf_counter() - begin:.0f} s", end=", ")
            print(f"{process_time() - spent:.0f} s of processors", end=": ")
            print(f"{np.linalg.norm(away, axis=1).mean():.2f} m/s from the command", flush=True)
            if args.save:
                np.savez_compressed(args.save, **weights(learner.agent))
    physics, whole = learner.spent, process_time() - spent
    steps = args.iterations * STEPS * args.envs
    print(f"{steps:,} steps of environments; physics took {physics:.1f} s of {whole:.1f} s", end="")
    print(f" of processors, {steps / physics:,.0f} steps a second")
    return weights(learner.agent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--robot", default="go2", choices=["go2", "g1"])
    parser.add_argument("--simulator", default="featherlane", choices=["featherlane", "mujoco"])
    parser.add_argument("--envs", type=int, default=1024)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of physics and of networks")
    parser.add_argument("--save", help="file for the policy, .npz")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    task = getattr(walking, args.robot)()
    judge(task, network_of(train(args, task)))


if __name__ == "__main__":
    main()
