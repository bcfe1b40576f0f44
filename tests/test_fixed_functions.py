"""`model.function(..., backend="fixed")`: the signature of the CPU's functions, and its errors."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import featherlane as fl
from featherlane.api.fixed import input_ranges
from featherlane.backends.fixed.evaluate import evaluate, floats

DERIVATIVES = "forward_dynamics_derivatives_from"


@pytest.fixture(scope="module")
def arm():
    return fl.load("iiwa14")


def states(model, function, seed=5, count=600):
    drawn = input_ranges(model, function.inputs, {}, seed)[1]
    return {name: x[:count] for name, x in drawn.items()}


def test_results_are_those_of_the_datapath(arm):
    function = arm.function("inverse_dynamics_derivatives", backend="fixed", format="fitted")
    given = {name: x[:6].reshape(2, 3, -1) for name, x in states(arm, function).items()}
    found = function(*given.values())
    assert type(found) is fl.InverseDynamicsDerivatives
    results = evaluate(function.datapath, given)
    wanted = floats(function.datapath, results.integers)
    for name, x in found._asdict().items():
        assert x.shape == (2, 3, 7, 7)
        assert x.dtype == np.float64
        assert_array_equal(x, wanted[name])
    assert_array_equal(function(**given)[0], found[0])
    assert_array_equal(pickle.loads(pickle.dumps(function))(**given)[0], found[0])


def test_leading_dimensions_out_and_dtypes(arm):
    function = arm.function("inverse_dynamics", backend="fixed")
    q, v, a = (x[:4] for x in states(arm, function).values())
    out = np.empty((4, 7))
    assert function(q, v[0], a, out=out, threads=2) is out
    assert_array_equal(out[2], function(q[2], v[0], a[2]))
    single = function(*(x.astype(np.float32) for x in (q, v, a)))
    assert single.dtype == np.float32
    assert function.report.states == 4
    with pytest.raises(ValueError, match="q has shape"):
        function(q[:, :3], v, a)


def test_targets_of_accuracy(arm):
    """27 and 18 bits at most 1/10 (median) and 1/3 (largest) of Q16.16's error, proved 1/5."""
    errors = {}
    for form in ("q16.16", "fitted", "proved"):
        function = arm.function(DERIVATIVES, backend="fixed", format=form)
        errors[form] = function.errors(**states(arm, function))
        assert not function.report.overflows
        assert not function.report.saturated
    median, largest = ({k: max(e[i].values()) for k, e in errors.items()} for i in (0, 1))
    assert median["fitted"] <= median["q16.16"] / 10
    assert largest["fitted"] <= largest["q16.16"] / 3
    assert median["proved"] <= median["q16.16"] / 5
    assert largest["proved"] <= largest["q16.16"] / 5


@pytest.mark.parametrize("name", ["inverse_dynamics", "mass_matrix"])
@pytest.mark.parametrize("form", ["q16.16", "proved"])
def test_errors_are_within_their_proved_bounds(arm, name, form):
    function = arm.function(name, backend="fixed", format=form)
    (bound,) = function.error_bounds().values()
    (largest,) = function.errors(**states(arm, function)).largest.values()
    assert bound / 1000 < largest <= bound


def test_what_may_overflow_has_no_bound(arm):
    function = arm.function("inverse_dynamics", backend="fixed", format="q7.16")
    assert function.error_bounds() == {"tau": np.inf}


def test_lost_states_and_nan_are_nan(arm):
    weak = fl.load("double_pendulum")
    function = weak.function("mass_matrix_inverse", backend="fixed", format="q22.10")
    found = function(np.zeros((3, 2)))  # pivots below 32 counts
    assert np.isnan(found).all()
    assert function.report.lost == 3
    function = arm.function("inverse_dynamics", backend="fixed")
    q, v, a = (x[:3] for x in states(arm, function).values())
    v[1, 4] = np.nan
    assert_array_equal(np.isnan(function(q, v, a)).all(-1), [False, True, False])
    assert function.report.lost == 1


def test_overflows_are_reported(arm):
    function = arm.function("inverse_dynamics", backend="fixed", format="q10.16")
    q, v, a = np.zeros((2, 7)), np.zeros((2, 7)), np.array([np.zeros(7), np.full(7, 500.0)])
    function(q, v, a)
    assert not function.report.saturated
    assert sum(function.report.overflows.values()) > 0


def test_inputs_beyond_their_formats_are_refused(arm):
    """By the entry of the user's array and its state; or they saturate, and are counted."""
    function = arm.function("inverse_dynamics", backend="fixed", format="q10.16")
    q, v, a = np.zeros((2, 3, 7)), np.zeros(7), np.zeros((3, 7))
    a[1, 2], out = -1000.0, np.ones((2, 3, 7))
    told = r"is -1000: wanted -512 to 511\.9999847, the range of its format; saturating\(\) of the"
    with pytest.raises(ValueError, match=rf"^a\[1, 2\] \(state 0, 1\) {told}"):
        function(q, v, a, out=out)
    assert (out == 1).all()
    with pytest.raises(ValueError, match=rf"^a\[2\] {told}"):
        function(q, v, a[1])
    with pytest.raises(ValueError, match=r"^v\[1\] is inf: wanted -512 to 511\.9"):
        function(q[0, 0], np.array([0, np.inf, 0, 0, 0, 0, 0]), a[0])
    with pytest.raises(ValueError, match=r"^q\[1\] is -720: .* radians, -720 degrees are -12\.57;"):
        function(np.full(7, -720.0), v, a[0])
    saturating = function.saturating()
    tau = saturating(q, v, a)
    assert saturating.report.saturated == {"a": 2}
    clipped = function(q, v, np.maximum(a, -512))
    assert_array_equal(tau, clipped)
    assert_array_equal(pickle.loads(pickle.dumps(saturating))(q, v, a), tau)
    assert function.errors(q, v, a).largest["tau"] > 100
    assert function.report.saturated == {"a": 2}


def test_ranges(arm):
    ranges = {"v": (-1.0, 1.0), "q": (np.full(7, -0.5), 0.5)}
    function = arm.function("inverse_dynamics", backend="fixed", format="proved", ranges=ranges)
    graph = function.datapath.graph
    whole = {graph.value[k][0]: str(function.datapath.format(k)) for k in graph.nodes_of("input")}
    assert whole == {"q": "q1.31", "v": "q2.30", "a": "q6.26"}
    wide = arm.function("inverse_dynamics", backend="fixed", format="proved")
    given = states(arm, function)
    given["q"], given["v"] = np.clip(given["q"], -0.5, 0.5), np.clip(given["v"], -1, 1)
    assert function.errors(**given).largest["tau"] < wide.errors(**given).largest["tau"] / 4


@pytest.mark.parametrize(
    ("form", "data", "small"),
    [("fitted", 27, 18), ("fitted20", 20, 18), ("fitted16/12", 16, 12), ("proved24", 24, 24)],
)
def test_bits_of_formats_for_each_signal(form, data, small):
    arm = fl.load("double_pendulum")
    function = arm.function("inverse_dynamics", backend="fixed", format=form)
    datapath, graph = function.datapath, function.datapath.graph
    widths = lambda *ops: {datapath.format(k).width for op in ops for k in graph.nodes_of(op)}
    assert widths("constant", "sin", "cos") == {small}
    assert widths("input", "add", "mul") == {data}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "fixed", "format": "fitted33"}, "format is 'fitted33': wanted 4 to 32 bits"),
        ({"backend": "fixed", "format": "proved16/18"}, "wanted 4 to 32 bits"),
        ({"backend": "fpga"}, "backend is 'fpga': wanted 'cpu' or 'fixed'"),
        (
            {"backend": "fixed", "format": "fit"},
            "format is 'fit': wanted one of 'q16.16' and the like for all signals",
        ),
        ({"backend": "fixed", "format": 16}, "format is 16: wanted"),
        ({"backend": "fixed", "device": "cuda"}, "backend='fixed' takes no width, device or"),
        ({"format": "fitted"}, "format and ranges are of backend='fixed'"),
        (
            {"backend": "fixed", "ranges": {"u": (0, 1)}},
            "ranges names 'u': wanted one of 'q', 'v', 'a",
        ),
        ({"backend": "fixed", "ranges": {"q": (1, 0)}}, r"ranges\['q'\] is \(1, 0\): wanted \(low"),
        ({"backend": "fixed", "ranges": {"q": 3}}, r"ranges\['q'\] is 3: wanted \(low, high\)"),
    ],
)
def test_wrong_arguments(arm, options, message):
    with pytest.raises(ValueError, match=message):
        arm.function("inverse_dynamics", **options)
