"""The notebooks of docs/notebooks run, and are stored without outputs."""

import contextlib
import json
from importlib import import_module

import numpy as np
import pytest
from documents import ROOT
from repetition import repeated

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = (
    *("first_steps", "trajectory_optimisation", "identification", "batch_study", "one_robot"),
)
WANTED = {  # what a notebook says in words, of the names that its cells define
    "one_robot": lambda x: (
        (x["share"].max(0) < 0.5).all()
        and 0.1 < x["reached"].converged.mean() < 0.6
        and x["errors"]["identified"].max() < 0.02 < x["errors"]["file"].max()
        and x["ends"]["identified"] < 5 < 20 < x["ends"]["file"]
        and x["upright"] == 1
        and x["checked"] is not False
    ),
    "first_steps": lambda x: (
        0.5 < x["possible"].mean() < 1
        and x["drift"]["rk4"] < 1e-3 * x["drift"]["semi_implicit"]
        and x["radius"][0] > 1 > x["radius"][1]
        and x["left"] < 1e-3
    ),
    "trajectory_optimisation": lambda x: (
        x["costs"][-1] < 1e-2 * x["costs"][0]
        and abs(float(x["solved"].cost) - x["own"]) < 1e-3 * x["own"]
        and x["ends"][1] < 0.1 * x["ends"][0]
    ),
    "identification": lambda x: (
        np.abs(x["score"]).max() < 4 and x["error"] < x["noise"] / 4 and x["possible"].all()
    ),
    "batch_study": lambda x: (
        x["carried"][0] > 0.99
        and (np.diff(x["carried"]) <= 0).all()
        and x["share"].sum() == pytest.approx(1)
        and x["spread"][1] > x["spread"][6]
    ),
}


def stored(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def test_all_notebooks_are_named():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_cells_of_a_notebook_run(name):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    if name == "one_robot":
        pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    pyplot.switch_backend("Agg")
    names = {"__name__": "notebook"}
    for number, cell in enumerate(stored(name)["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], f"cell {number} has outputs"
            assert cell["execution_count"] is None
            code = compile("".join(cell["source"]), f"{name}.ipynb, cell {number}", "exec")
            with contextlib.chdir(FOLDER):
                exec(code, names)
    pyplot.close("all")
    assert WANTED[name](names)


def test_pages_of_notebooks_open_them_at_the_address_of_the_repository(monkeypatch):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    monkeypatch.syspath_prepend(ROOT / "docs" / "dev")
    opened = import_module("notebook_pages").opened
    text = opened("docs/notebooks/one_robot.ipynb", "https://github.com/me/lane")
    for link in (
        "https://colab.research.google.com/github/me/lane/blob/main/docs/notebooks/one_robot.ipynb",
        "https://mybinder.org/v2/gh/me/lane/main?labpath=docs%2Fnotebooks%2Fone_robot.ipynb",
        "git clone https://github.com/me/lane && pip install './lane[",
        "%cd lane/docs/notebooks",
    ):
        assert link in text


@pytest.mark.parametrize("name", repeated(NOTEBOOKS, 1))
def test_a_kernel_runs_a_notebook(name):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    where = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=where).execute()
    shown = [output.output_type for cell in notebook.cells for output in cell.get("outputs", [])]
    assert "display_data" in shown  # figures
    assert "stream" in shown
