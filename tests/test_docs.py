"""The documents of docs/ run as they stand."""

import pytest
from documents import ROOT, run
from repetition import repeated

PAGES = (
    *("start", "tour", "traces", "frames", "real_time", "optimal_control"),
    *("dev/compiler", "theory/gradients", "theory/accelerator"),
)
# Their subjects have quick tests
MORE = (
    *("conventions", "fpga", "links", "accuracy", "identification", "lathrop", "processors"),
    *(
        "inverse_kinematics",
        "sampling_control",
        "learning",
        "fixed_point_in_the_loop",
        "accelerators",
        "theory/prefix_sums",
        "theory/forward_dynamics",
        "theory/parallelism",
    ),
)


@pytest.mark.parametrize("page", repeated(PAGES + MORE, len(PAGES)))
def test_the_code_of_a_document_runs(page):
    run(ROOT / "docs" / f"{page}.md")


def test_the_code_for_frameworks_runs():
    for package in ("torch", "jax", "casadi"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    run(ROOT / "docs" / "frameworks.md")


def test_the_code_for_stores_runs():
    for package in ("dask", "zarr"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[dask]'")
    run(ROOT / "docs" / "scale.md")
