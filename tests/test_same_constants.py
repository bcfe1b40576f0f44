"""A robot's constants have the same bits whatever processor BLAS, NumPy and libm compute for."""

import json
import os
import platform
import subprocess
import sys
from math import cos, inf, isnan, pi, sin
from pathlib import Path

import mpmath
import numpy as np
import pytest
from repetition import repeated

from featherlane.robot.constants import eigenvalues, orthonormal
from featherlane.scalar import sine_cosine

CORES = {  # OpenBLAS's names of kernels, and the processor's feature that each needs
    "Prescott": "SSE3",
    "Haswell": "AVX2",
    "SkylakeX": "AVX512_SKX",
    "ARMV8": "ASIMD",
    "NEOVERSEN1": "ASIMDHP",
}
WITHOUT_FMA = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable,-FMA4_Usable"


def features():
    """The processor's features by NumPy's names, and those among them that NumPy can do without."""
    try:
        from numpy._core import _multiarray_umath as numpy_core
    except ImportError:  # NumPy 1
        from numpy.core import _multiarray_umath as numpy_core
    found = {name for name, has in numpy_core.__cpu_features__.items() if has}
    return found, [name for name in numpy_core.__cpu_dispatch__ if name in found]


def processors():
    """Environments in which libraries use their code for one processor or another."""
    found, spare = features()
    least = {"NPY_DISABLE_CPU_FEATURES": " ".join(spare)} if spare else {}
    if platform.libc_ver()[0] == "glibc":
        least["GLIBC_TUNABLES"] = WITHOUT_FMA
    first, *others = [core for core, needs in CORES.items() if needs in found] or [""]
    yield {"OPENBLAS_CORETYPE": first} | least
    yield from ({"OPENBLAS_CORETYPE": core} for core in others)


def told(environment):
    """What the constants of many robots are where the libraries believe in another processor."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.robot_constants"],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture(scope="module")
def expected():
    return told({})


@pytest.mark.parametrize("environment", repeated([*processors()], spread=False))
def test_constants_and_operation_counts_are_the_same_on_every_processor(environment, expected):
    """The first is the least processor, with which most results of libraries differ."""
    assert len(expected[0]) > 25
    found = told(environment)
    wrong = [name for name in expected[0] if found[0][name] != expected[0][name]]
    assert not wrong
    assert found[1:] == expected[1:]


def test_sines_are_rounded_from_more_digits():
    rng = np.random.default_rng(0)
    some = [*rng.uniform(-10, 10, 300), *(2.0 ** rng.uniform(-60, 1000, 100))]
    near = [k * pi / 2 for k in range(-8, 9)]
    with mpmath.workprec(1300):
        for x in map(float, [*some, *near, 1.57079632679, 6381956970095103 * 2.0**797, 5e-324]):
            assert sine_cosine(x) == (float(mpmath.sin(x)), float(mpmath.cos(x))), x
    assert all(map(isnan, sine_cosine(inf)))
    s, c = sine_cosine(0.5)
    assert (s, c) == pytest.approx((sin(0.5), cos(0.5)), rel=1e-15)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_eigenvalues_and_bases(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        A = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-4, 4, n)
        found, expected = eigenvalues((A @ A.T).tolist()), np.linalg.eigvalsh(A @ A.T)
        assert np.abs(found - expected).max() < 1e-14 * expected[-1]
        vectors = A / np.linalg.norm(A, axis=1, keepdims=True)
        Q = np.array(orthonormal(vectors.tolist()))
        assert np.abs(Q @ Q.T - np.eye(n)).max() < 1e-14
        assert np.abs(np.tril(Q @ vectors.T, -1)).max() < 1e-14  # the span of the first ones
    assert eigenvalues(np.zeros((n, n)).tolist()) == [0.0] * n
