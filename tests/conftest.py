"""Fixtures of all tests: a cache for compiled code, two robots, and random states."""

import os

import numpy as np
import pytest

import featherlane as fl
from featherlane.functions.table import FUNCTIONS, shape

try:  # how long an example takes depends on the machine, and on what else runs there
    from hypothesis import HealthCheck, settings

    slow = [HealthCheck.too_slow]
    settings.register_profile("any machine", deadline=None, suppress_health_check=slow)
    settings.load_profile("any machine")
except ModuleNotFoundError:
    pass


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """The tests of a session share a cache for compiled code, and nothing else uses it."""
    folder = tmp_path_factory.mktemp("compiled", numbered=True)
    folder.chmod(0o700)
    before = os.environ.get("FEATHERLANE_CACHE")
    os.environ["FEATHERLANE_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["FEATHERLANE_CACHE"]
    else:
        os.environ["FEATHERLANE_CACHE"] = before


@pytest.fixture(scope="session")
def iiwa():
    return fl.load("iiwa14")


@pytest.fixture(scope="session")
def pendulum():
    """Small, with a quaternion: nq 9, nv 8."""
    return fl.load("double_pendulum", root="free")


@pytest.fixture(scope="session")
def states():
    """states(model, function, batch, f_ext, dtype): random inputs of a dynamics function."""

    def make(model, name, batch, f_ext=None, dtype=np.float64, seed=0):
        rng = np.random.default_rng(seed)
        batch = (batch,) if isinstance(batch, int) else tuple(batch)
        result = {}
        for key, size in FUNCTIONS[name].inputs.items():
            if size == ("q",):
                result[key] = model.random_configuration(batch, seed=rng)
            else:
                result[key] = rng.normal(size=(*batch, *shape(model, size)))
        if f_ext:
            result["f_ext"] = rng.normal(size=(*batch, model.nbodies, 6))
        return {key: x.astype(dtype) for key, x in result.items()}

    return make
