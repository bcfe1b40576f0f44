"""Proofs by Yosys and z3 that links in slices deliver each word in its order, unchanged."""

from dataclasses import replace
from functools import cache

import pytest
from circuit_proofs.slices_proof import SlicedLink, prove
from faults import with_fault
from repetition import repeated
from test_network_proofs import DFD, for_proofs, small

from featherlane.backends.fpga.network import slices
from featherlane.backends.fpga.network.structure import Slicing
from featherlane.errors import CompileError

LINKS = [  # slices, bits of a chunk, of a word, and places
    (4, 1, 4, 2),
    (4, 2, 5, 1),
    (4, 3, 11, 2),
    (4, 1, 7, 3),
    (8, 1, 8, 2),
]


@cache
def link(steps, chunk, width, depth):
    """A link of such words, and its modules."""
    network = replace(small((DFD,), 2, 2), slicing=Slicing(steps, chunk))
    modules = slices.modules(network)
    settings = {
        "WIDTH": width,
        "SLICE": network.slices.columns(width) * chunk,
        "DEPTH": depth,
        "COUNT_BITS": depth.bit_length(),
    }
    return SlicedLink(modules[-1].name, steps, settings), modules


@for_proofs
@pytest.mark.parametrize("size", repeated(LINKS, 3, spread=False), ids=str)
def test_words_are_delivered_in_their_order_unchanged(size):
    prove(*link(*size))


FAULTS = {
    "the next word is read": (0, "reading <= PLACE_BITS'(first)", "reading <= PLACE_BITS'(last)"),
    "slices are written at one place": (0, "if (write_step == '1) last", "if (reset) last"),
    "a word that comes later is written": (0, "if (put) held", "if (put || writes) held"),
    "chunks are exchanged": (0, "(n % SLICES) * COLUMNS", "(n % SLICES ^ 1) * COLUMNS"),
    "slices are read a cycle late": (0, "take ? '0 : read_step", "writes ? '0 : read_step"),
    "a slice is taken too early": (1, "step == 3'd2", "step == 3'd1"),
    "a word is lost": (2, "stored && !loads && (!filled || take)", "stored && !loads"),
    "a word comes twice": (2, "else if (take) filled", "else if (take && starts) filled"),
}


@for_proofs
@pytest.mark.parametrize("fault", repeated([*FAULTS], 4))
def test_a_wrong_link_is_not_proved(fault):
    part, right, wrong = FAULTS[fault]
    proved, modules = link(4, 1, 7, 3)
    modules = [
        with_fault(module, right, wrong) if n == part else module
        for n, module in enumerate(modules)
    ]
    with pytest.raises(CompileError, match="a word is not delivered as it came within 34 cycles"):
        prove(proved, modules)
