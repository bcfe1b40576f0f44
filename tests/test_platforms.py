"""Samples of `tests/platforms`: what other systems get, and many threads at once."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import finished, python

sys.path.insert(0, str(Path(__file__).parents[1]))
from featherlane.backends.cpu.addresses import NAMES, with_table
from featherlane.backends.cpu.call import vectorcall
from featherlane.backends.cpu.linked import symbols
from featherlane.backends.llvm import targets
from tests.platforms import dependencies, objects, triples

SAMPLE = ("mass_matrix", "forward_dynamics_derivatives")


@pytest.mark.parametrize("name", triples.SYSTEMS)
def test_other_systems_need_the_c_library_alone(name):
    system = triples.System(name)
    system.make_others()
    system.make_all("double_pendulum", SAMPLE, (np.float32,))
    assert system.files == 3 + 2 * len(SAMPLE)
    assert not system.complaints()


@pytest.mark.parametrize("name", triples.SYSTEMS)
def test_symbols_of_object_files_are_found(name):
    """As if the front referred to the interpreter by name again."""
    target = targets.host_target(*triples.SYSTEMS[name])
    text = "declare void @Py_IncRef(ptr)\n@PyFloat_Type = external global i8\n"
    text += "define void @f() {\n call void @Py_IncRef(ptr @PyFloat_Type)\n ret void\n}\n"
    found = objects.undefined(targets.machine_code(text, target))
    assert {"Py_IncRef", "PyFloat_Type"} <= found - triples.ALLOWED


def test_the_table_has_every_address():
    assert set(symbols()) == set(NAMES)
    assert "declare" not in vectorcall.source().replace("declare i64 @llvm.", "")
    assert with_table("") == ""


def test_threads_begin_at_once():
    """Many make the first calls of a process together, which create the pool of threads."""
    code = """
    import sys
    sys.argv[1:] = ["--with-the-lock", "--rounds", "1", "--threads", "4"]
    from tests.platforms import race
    race.answered(race.main)
    """
    told = finished(python(code, PYTHONPATH=os.pathsep.join(sys.path)))
    assert "0 are wrong" in told


def test_the_oldest_dependencies_are_single_versions():
    for line in dependencies.oldest():
        assert line.split(";")[0].count("==") == 1
