"""Designs of functions: the Pareto front, and the design that bounds ask for."""

import gc
import inspect
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import featherlane as fl
from featherlane.accelerators.front import pareto

ID = "inverse_dynamics"
FORMATS = ("q16.16", "fitted")
INTERVALS = (1, 2, 4)


@pytest.fixture(scope="module")
def pendulum():
    return fl.load("double_pendulum")


@pytest.fixture(scope="module")
def front(pendulum):
    return fl.accelerator.front(pendulum, ID, formats=FORMATS, intervals=INTERVALS)


def wanted(pendulum, **bounds):
    return fl.accelerator.design(pendulum, ID, formats=FORMATS, intervals=INTERVALS, **bounds)


def test_a_front_has_what_nothing_beats():
    """Compared with all pairs, on random points with equal ones among them."""
    rng = np.random.default_rng(3)
    points = [tuple(row) for row in rng.integers(0, 6, (300, 4))]
    found = set(pareto(points, key=lambda point: point))
    beaten = lambda p: any(
        q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in points
    )
    assert found == {p for p in points if not beaten(p)}
    assert len(list(pareto(points, key=lambda point: point))) == len(found)  # each once


def test_designs_of_a_front_are_those_that_are_made(pendulum, front):
    """DSPs are counted and latencies are found in a hurry: what is made is no longer."""
    for point in front.best:
        made = fl.accelerator(
            pendulum, interval=point.interval, format=point.format, algorithm=point.algorithm
        )
        assert made.cost.total.dsps == point.dsps
        assert made.latency <= point.latency
        assert made.design.input_bits + made.design.output_bits == point.bits


def test_bounds_choose_the_best_of_the_rest(pendulum, front):
    exact = min(point.error for point in front.points)
    few = min(point.dsp for point in front.points if point.interval <= 2)
    assert wanted(pendulum, interval=4, error=1).cost.shares.dsps == pytest.approx(
        min(point.dsp for point in front.points)
    )
    made = wanted(pendulum, interval=2, dsp=few)
    assert (made.cost.shares.dsps, made.interval) == (pytest.approx(few), 2)
    made = wanted(pendulum, error=exact)
    assert made.choices["format"] == next(p.format for p in front.points if p.error == exact)
    assert made.interval == 1


def test_what_no_design_has_is_told_with_the_nearest(pendulum):
    with pytest.raises(fl.CompileError, match=r"dsp up to 0\.001 .* nearest misses dsp, with inte"):
        wanted(pendulum, dsp=0.001)
    with pytest.raises(fl.CompileError, match="nearest misses error and latency"):
        wanted(pendulum, latency=1, error=1e-30)


@pytest.mark.parametrize("function", ["forward_dynamics", None])
def test_proved_formats_of_any_bits_take_the_algorithm_with_bounds(pendulum, function):
    made = fl.accelerator.front(pendulum, function, formats=["proved30"], intervals=[8])
    assert {(p.format, p.algorithm) for p in made.points} == {("proved30", "bounded")}
    assert not made.refused


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"dsp": -1}, "dsp is -1: wanted the most"),
        ({"dsp": 10**400}, "dsp is 1000.*: wanted the most"),
        ({"error": float("nan")}, "error is nan"),
        ({"latency": True}, "latency is True"),
        ({"interval": 0.5}, "interval is 0.5: wanted the most it may be, 1 to 4096"),
        ({"interval": 1e9, "intervals": (1,)}, "interval is 1000000000.0: wanted the most"),
        ({"formats": "fitted"}, "formats is 'fitted': wanted a list of some"),
        ({"formats": 3}, "formats is 3: wanted a list of some"),
        ({"intervals": (0,)}, "intervals has 0"),
        ({"intervals": (5000,)}, "intervals has 5000: wanted whole numbers of cycles, 1 to 4096"),
        ({"intervals": 2}, "intervals is 2: wanted a list of some"),
        ({"intervals": []}, r"intervals is \[\]: wanted a list of some"),
        ({"algorithms": []}, r"algorithms is \[\]: wanted a list of some"),
        ({"algorithms": "serial"}, "algorithms is 'serial': wanted a list of some"),
        ({"algorithms": ("aba",)}, "algorithm is 'aba' of inverse_dynamics"),
        ({"algorithms": (None,)}, "algorithms has None: wanted names"),
        ({"formats": (None,)}, "formats has None: wanted names"),
    ],
)
def test_what_are_no_bounds(pendulum, bounds, told):
    with pytest.raises(ValueError, match=told):
        fl.accelerator.design(pendulum, ID, **bounds)


def test_bounds_may_be_numbers_of_numpy(pendulum):
    tried = {"formats": ("fitted",), "intervals": (n for n in (1, 2))}  # what is iterated once
    made = fl.accelerator.design(
        pendulum, ID, interval=np.int64(2), dsp=np.float32(2), error=1e-3, **tried
    )
    assert made.interval <= 2


def test_what_has_no_design_is_refused_with_the_reason(pendulum):
    """Four bits do not hold the constants."""
    front = fl.accelerator.front(pendulum, ID, formats=("q1.3",), intervals=(4,))
    assert front.points == ()
    assert all("constant" in told for told in front.refused.values())
    with pytest.raises(fl.CompileError, match="constant"):
        fl.accelerator.design(pendulum, ID, formats=("q1.3",))


def test_a_format_that_overflows_is_not_chosen(pendulum):
    """Sixteen bits need fewer DSPs, but seven of them before the point do not hold the torques."""
    tried = {"formats": ("q7.9", "fitted"), "intervals": (4,), "ranges": {"v": (-10, 10)}}
    front = fl.accelerator.front(pendulum, ID, **tried)
    assert min(front.points, key=lambda p: p.dsp).format == "q7.9"
    assert fl.accelerator.design(pendulum, ID, **tried).choices["format"] == "fitted"
    with pytest.raises(fl.CompileError, match=r"nearest misses dsp, .* \(fitted, serial\)"):
        fl.accelerator.design(pendulum, ID, dsp=0.01, algorithms=["serial"], **tried)
    with pytest.raises(fl.CompileError, match="random states overflow, or are lost, in all that f"):
        fl.accelerator.design(pendulum, ID, **tried | {"formats": ("q7.9",)})


def test_what_is_constant_has_no_designs():
    """The mass matrix of one sliding body, in one pipeline and in arrays."""
    slide = fl.random_tree(1, 1.0, ("prismatic",), seed=1)
    tried = {"formats": ("fitted",), "intervals": (4,), "arrays": (None, "limbs")}
    front = fl.accelerator.front(slide, "mass_matrix", **tried)
    assert not front.points
    assert len(front.refused) == 2
    assert all("is constant: there is nothing" in told for told in front.refused.values())


def test_what_is_named_twice_is_tried_once(pendulum):
    tried = {"formats": ("fitted", "fitted"), "intervals": (4, 4), "arrays": (None, None)}
    front = fl.accelerator.front(pendulum, ID, algorithms=("serial", "serial"), **tried)
    assert len(front.points) == 1


def test_ranges_that_differ_in_any_digit_are_searched_anew(pendulum):
    tried = {"formats": ("q16.16",), "intervals": (4,), "algorithms": ("serial",)}
    errors = {
        fl.accelerator.front(pendulum, ID, ranges={"v": (-1, np.array([1.0, high]))}, **tried)
        .points[0]
        .error
        for high in (1.0, 1.0 + 1e-10)
    }
    assert len(errors) == 2


def test_designs_are_kept_no_longer_than_their_model():
    robot = fl.random_tree(1, 1.0, ("revolute",), seed=7)
    fl.accelerator.front(robot, ID, formats=("fitted",), intervals=(4,))
    left = weakref.ref(robot)
    del robot
    gc.collect()
    assert left() is None


def worst_error(made):
    """The largest error of all functions of a design, of each result a part of the largest."""
    errors = (made.function(name).errors(**made.samples(name, 500)) for name in made.functions)
    return max(x / found.magnitude[k] for found in errors for k, x in found.largest.items())


def test_all_functions_have_designs_together(pendulum):
    """Points are the designs that are made; the error is that of the worst function."""
    tried = {"formats": ("q16.16", "fitted"), "intervals": (2, 6), "algorithms": ("deferred",)}
    made = fl.accelerator.design(pendulum, dsp=4, error=2e-3, **tried)
    front = fl.accelerator.front(pendulum, **tried)
    (point,) = (
        p for p in front.points if (p.interval, p.format) == (made.interval, made.choices["format"])
    )
    assert made.cost.shares.dsps == pytest.approx(point.dsp)
    assert max(made.latency.values()) <= point.latency
    assert worst_error(made) == pytest.approx(
        point.error, rel=0.3
    )  # sums in post-adders are rounded less
    assert made.interval == min(p.interval for p in front.points if p.dsp <= 4 and p.error <= 2e-3)


# Arrays


LEGS = {"formats": ("q16.16", "proved"), "intervals": (6,), "algorithms": ("serial",)}


def test_arrays_are_tried_beside_one_pipeline():
    """What arrays refuse is left out with the reason; few LUTs are a reason to take them."""
    legs = fl.random_tree(4, 3.0, ("revolute",), seed=3)  # three alike
    tried = LEGS | {"arrays": (None, "limbs", "columns")}
    front = fl.accelerator.front(legs, ID, **tried)
    flat, turns = (
        next(p for p in front.points if (p.format, p.arrays) == ("q16.16", kind))
        for kind in (None, "limbs")
    )
    assert str(turns).endswith("(q16.16, serial, limbs time-multiplexed)")
    assert turns.luts < 0.6 * flat.luts
    assert len(front.points) == 3
    assert "clamps" in front.refused["proved, serial, limbs time-multiplexed"]
    assert "none of products with M^-1" in front.refused["q16.16, serial, columns time-multiplexed"]

    made = fl.accelerator.design(legs, ID, lut=(flat.luts + turns.luts) / 2, **tried)
    assert made.choices["arrays"] == "limbs"
    assert made.latency <= turns.latency
    errors = made.function.errors(**made.samples(500))
    assert turns.error == pytest.approx(errors.largest["tau"] / errors.magnitude["tau"], rel=0.3)
    (mark,) = (m for m in made._marks(front) if m.is_this)
    assert mark.algorithm == "serial, limbs time-multiplexed"
    with pytest.raises(
        fl.CompileError,
        match=r"lut up to 0\.1 % of the LUTs: the nearest misses lut, .* LUTs$",
    ):
        fl.accelerator.design(legs, ID, lut=0.1, **tried)


def test_arrays_of_all_functions_are_tried_beside_stations():
    """What is made of a point has its figures, and stands in the chart of the front."""
    robot = fl.random_tree(3, 2.0, ("revolute",), seed=2)  # two limbs that are alike
    tried = {"formats": ("fitted", "proved"), "intervals": (8,), "arrays": (None, "auto")}
    front = fl.accelerator.front(robot, algorithms=("factor", "deferred"), **tried)
    assert {(p.algorithm, p.arrays) for p in front.points if p.format == "fitted"} == {
        ("factor", None),
        ("deferred", None),
        ("factor", "auto"),
    }
    assert (
        "limbs would wait" in front.refused["fitted, deferred, limbs and columns time-multiplexed"]
    )
    assert "clamps" in front.refused["proved, factor, limbs and columns time-multiplexed"]
    (turns,) = (p for p in front.points if p.arrays)
    assert str(turns).endswith("(fitted, factor, limbs and columns time-multiplexed)")

    least = min(p.dsp for p in front.points)
    made = fl.accelerator.design(robot, dsp=least, **tried)
    assert made.choices["arrays"] == "auto"
    assert made.cost.shares.dsps == pytest.approx(turns.dsp)
    assert max(made.latency.values()) <= turns.latency
    (mark,) = (m for m in made._marks(front) if m.is_this)
    assert mark.algorithm == "factor, limbs and columns time-multiplexed"
    two = fl.multifunction(robot, made.functions[:2], interval=8)
    with pytest.raises(ValueError, match=r"front is of all functions .* wanted inverse_dynamics, "):
        two.report("page.html", front=front)
    assert worst_error(made) == pytest.approx(turns.error, rel=0.3)  # as above


def test_arrays_of_one_design_are_not_those_of_the_next(monkeypatch):
    """Where what is made of the first one is beyond a bound, the next one is made as it was found:
    here all are, as if schedules of the search had shared more.
    """
    legs = fl.random_tree(4, 3.0, ("revolute",), seed=3)
    tried = LEGS | {"formats": ("q16.16",), "arrays": (None, "limbs")}
    most = max(p.dsp for p in fl.accelerator.front(legs, ID, **tried).points)
    made = []

    def beyond(model, spec, name):
        made.append(spec.arrays)
        shares = SimpleNamespace(shares=(100.0, 100.0, 100.0, 100.0))
        return SimpleNamespace(cost=shares)

    monkeypatch.setattr("featherlane.accelerators.entry.designed", beyond)
    with pytest.raises(fl.CompileError, match="the nearest misses dsp, with"):
        fl.accelerator.design(legs, ID, interval=6, dsp=most, error=1, latency=1000, **tried)
    assert made == ["limbs", None]  # the one of fewer LUTs first


def test_divisions_that_come_last_are_not_tried_in_arrays():
    legs = fl.random_tree(3, 2.0, ("revolute",), seed=3)
    tried = {"formats": ("q16.16",), "intervals": (4,), "arrays": ("limbs",)}
    front = fl.accelerator.front(legs, "mass_matrix_inverse", **tried)
    assert {p.algorithm for p in front.points} == {"factor", "mminvgen"}


def test_refusals_name_what_stands_in_the_way(pendulum):
    """Of proved formats in arrays the clamps, not the algorithm that they take; of too many DSPs no
    arrays, which have fewer LUTs.
    """
    tried = {"intervals": (1,)}
    with pytest.raises(fl.CompileError, match="'proved', which clamps signals"):
        fl.accelerator.design(pendulum, formats=["proved"], arrays=["auto"], **tried)
    with pytest.raises(
        fl.CompileError, match=r"none fits ECP5-85k; .* longer intervals= need less$"
    ):
        fl.accelerator.design(pendulum, formats=["fitted"], device="ecp5_85k", **tried)


@pytest.mark.parametrize(
    ("function", "arrays", "told"),
    [
        (ID, "limbs", "arrays is 'limbs': wanted a list of some"),
        (ID, ("legs",), "arrays of a function has 'legs': wanted one of None, 'limbs', 'columns'"),
        (None, ("limbs",), "arrays of all functions has 'limbs': wanted None or 'auto'"),
    ],
)
def test_what_are_no_arrays(pendulum, function, arrays, told):
    with pytest.raises(ValueError, match=told):
        fl.accelerator.front(pendulum, function, arrays=arrays)


def test_help_shows_all_arguments():
    assert list(inspect.signature(fl.accelerator).parameters)[:3] == [
        "model",
        "function",
        "interval",
    ]
