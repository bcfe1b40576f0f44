"""The figures of docs/: a title inside, and words that are text, not outlines of letters."""

import re
import sys
from importlib import import_module
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from documents import ROOT

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = sorted((ROOT / "docs").rglob("*.svg"))
OUTLINES = re.compile(r'id="\w*(Sans|Serif)\w*-[0-9a-f]+"')  # matplotlib's letters as paths


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_a_search_finds_the_words_of_a_figure(path):
    text = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.find(f"{SVG}title") is not None
    assert sum(1 for _ in root.iter(f"{SVG}text")) > 4
    assert not OUTLINES.search(text)


def test_figures_are_saved_with_words_as_text(tmp_path):
    pytest.importorskip("matplotlib")
    from featherlane.tools.figures import INK, pyplot, save

    plt = pyplot()
    figure, axes = plt.subplots()
    axes.set(title="torque", xlabel="time, s", ylabel="N m")
    file = tmp_path / "torque.svg"
    save(figure, file, "A torque over time", "Measured on a machine", png=tmp_path)
    plt.close(figure)
    root = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    words = {"".join(x.itertext()): x.get("style") for x in root.iter(f"{SVG}text")}
    assert {"torque", "time, s", "N m", "Measured on a machine"} <= words.keys()
    assert INK in words["torque"]
    assert root.find(f"{SVG}title").text == "A torque over time"
    assert {x.name for x in tmp_path.glob("*.png")} == {"torque.png", "torque_dark.png"}


def test_panels_of_a_narrow_figure_are_below_one_another(tmp_path):
    pytest.importorskip("matplotlib")
    from featherlane.tools.figures import NARROW, pyplot, save

    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    for k, axis in enumerate(axes.flat):
        axis.plot([0, 1], [0, k], label=f"line {k}")
    axes[0, 0].set(title="left", ylabel="upper")
    axes[1, 0].set_ylabel("lower")
    figure.legend(loc="outside upper center", ncols=4)
    save(figure, tmp_path / "four.svg", "Four panels", narrow=2.0)
    assert {path.name for path in tmp_path.iterdir()} == {"four.svg", "four_narrow.svg"}
    assert figure.get_size_inches().tolist() == [NARROW, 8.0]
    boxes = [axis.get_position() for axis in axes.flat]
    assert all(above.y0 > below.y1 for above, below in pairwise(boxes))
    assert [axis.get_ylabel() for axis in axes.flat] == ["upper", "upper", "lower", "lower"]
    assert [axis.get_title() for axis in axes.flat] == ["left", "", "left", ""]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"line {k}" for k in range(4)]
    plt.close(figure)


@pytest.mark.parametrize("narrow", [None, 2.0])
def test_a_note_is_below_the_legend(narrow, tmp_path):
    """In the file, where the figure grows by the note: what stands outside of panels stays."""
    pytest.importorskip("matplotlib")
    from featherlane.tools.figures import BELOW, pyplot, save

    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for axis in axes:
        axis.plot([0, 1], [0, 1], label="line of the legend")
    figure.legend(*axes[0].get_legend_handles_labels(), loc=BELOW)
    save(figure, tmp_path / "two.svg", "Two panels", "Measured on a machine", narrow=narrow)
    plt.close(figure)
    name = "two.svg" if narrow is None else "two_narrow.svg"
    root = ElementTree.parse(tmp_path / name).getroot()
    heights = {"".join(x.itertext()): float(x.get("y")) for x in root.iter(f"{SVG}text")}
    note, legend = heights["Measured on a machine"], heights["line of the legend"]
    assert legend + 8 < note < float(root.get("viewBox").split()[3])


def test_closed_loops_are_drawn_from_their_csv(tmp_path, monkeypatch):
    """benchmarks/mpc/figure.py: rows read are rows written, and their controllers head columns."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "mpc")
    figure = import_module("figure")
    monkeypatch.delitem(sys.modules, "figure")
    stored, kept, drawn = ROOT / "docs" / "mpc.csv", tmp_path / "mpc.csv", tmp_path / "mpc.svg"
    loops = figure.read(stored)
    figure.write(kept, loops)
    figure.draw(drawn, loops)
    assert kept.read_text(encoding="utf-8") == stored.read_text(encoding="utf-8")
    for file in (drawn, ROOT / "docs" / "mpc.svg"):
        root = ElementTree.parse(file).getroot()
        assert loops.keys() <= {"".join(x.itertext()) for x in root.iter(f"{SVG}text")}
