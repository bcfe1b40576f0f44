"""Options of a run, and fixtures of all tests: a cache for compiled code, two robots, states."""

import gc
import os

import numpy as np
import pytest
import repetition
from left_out import Summary

import featherlane as fl
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.variants import input_shapes

try:
    from hypothesis import HealthCheck, settings
except ModuleNotFoundError:
    settings = None


def pytest_addoption(parser):
    told = "also the repetitions: more robots, seeds and dtypes of what every run tries"
    parser.addoption("--full", action="store_true", help=told)
    told = "also the processor time of the run, and of its dearest files"
    parser.addoption("--costs", action="store_true", help=told)


def pytest_configure(config):
    told = "full: more robots, seeds or dtypes of what other tests prove; only --full runs it"
    config.addinivalue_line("markers", told)
    config.pluginmanager.register(Summary())
    repetition.everything = config.option.full
    if settings is not None:
        settings.register_profile(
            "any machine",  # how long an example takes depends on it, and on what else runs there
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            max_examples=repetition.examples(100),
        )
        settings.load_profile("any machine")


def pytest_collection_finish():
    """What was loaded stays until the end: no collection of garbage has to go through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """The tests of a run share a cache for compiled code, also if several processes run them, and
    nothing else uses it.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    folder.mkdir(mode=0o700, exist_ok=True)
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
                result[key] = rng.normal(size=(*batch, *input_shapes(model, Variant(name))[key]))
        if f_ext:
            result["f_ext"] = rng.normal(size=(*batch, model.nbodies, 6))
        return {key: x.astype(dtype) for key, x in result.items()}

    return make
