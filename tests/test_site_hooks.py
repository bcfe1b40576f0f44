"""The hooks of the site: figures and tables on narrow screens, and names of other libraries."""

import importlib.util
import json
from types import SimpleNamespace

import pytest
from documents import ROOT


def hook(name):
    path = ROOT / "docs" / "dev" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


narrow = hook("narrow_screens")
SVG = '<svg viewBox="0 0 720 300"><text style="font: 10px sans-serif">x</text>{}</svg>'


def test_a_figure_is_as_wide_as_its_letters_need():
    assert narrow.readable_width(SVG.format("")) == 648
    assert narrow.readable_width(SVG.format("<text font-size='5'>2</text>")) == 1296
    assert narrow.readable_width('<svg viewBox="0 0 720 300"></svg>') is None


def test_an_exponent_does_not_widen_a_figure():
    words = "<text font-size='10'>10</text>" * 8
    assert narrow.readable_width(SVG.format(f"{words}<text font-size='5'>2</text>")) == 648


@pytest.mark.parametrize(
    "name",
    [
        "board",
        "browser",
        "clear_of_obstacles",
        "closed_loops",
        "conventions",
        "design_space",
        "dev/architecture",
        "fixed_point_control",
        "fixed_point_kinds",
        "fixed_point_map",
        "frames",
        "from_robot_to_board",
        "identification",
        "in_frameworks",
        "lathrop",
        "learning",
        "links_fastest",
        "links_forward",
        "links_forward_groups",
        "links_inverse",
        "links_inverse_groups",
        "microcontrollers",
        "mpc",
        "optimal_control",
        "organisation_atlas",
        "organisation_mobile_arm",
        "organisation_quadruped_arm",
        "processors",
        "quadruped_trot",
        "robot_files",
        "sampling_control",
        "scale",
        "slowest_calls",
        "standing_humanoid",
        "suite_ratio",
        "suite_roofline",
        "suite_throughput",
        "time_steps",
        "traces",
        "walking",
    ],
)
def test_a_narrow_drawing_takes_the_place_of_a_figure(name):
    own = name.rpartition("/")[2]
    image = narrow.IMAGE.search(f'<img alt="a" src="../{own}.svg" />')
    assert f'srcset="../{own}_narrow.svg"' in narrow.framed(image, f"{name}/")
    width = narrow.readable_width(
        (ROOT / "docs" / f"{name}_narrow.svg").read_text(encoding="utf-8")
    )
    assert width < narrow.PAGE


def table(*rows):
    head, *body = [[f"<td>{cell}</td>" for cell in row] for row in rows]
    head = "".join(head).replace("td>", "th>")
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def test_a_table_of_long_words_is_stacked():
    long = f"<code>{'x' * 40}</code>"
    stacked = narrow.fitted(table(("Pinocchio", "here"), (long, long)))
    assert stacked.startswith("<table data-stacked>")
    assert f'<td data-column="Pinocchio">{long}</td><td data-column="here">{long}</td>' in stacked


def test_other_tables_stay_as_they_are():
    words = " ".join(["word"] * 40)
    for kept in (table(("a", "b"), (words, words)), table("abcd", ["x" * 40] * 4)):
        assert narrow.fitted(kept) == kept


def test_names_in_texts_lead_to_their_entries():
    links = hook("reference_links")
    places = links.entries()
    assert places["fl.load"] == places["load"] == "robots/#featherlane.load"
    assert places["Model.step"] == places["step"] == "steps/#featherlane.Model.step"
    assert "jacobian" not in places  # of a robot, and of a function
    page = SimpleNamespace(file=SimpleNamespace(src_uri="reference/steps.md", name="steps"))
    html = links.on_page_content(
        "<b><code>out</code></b> <code>Model.step</code> <code>mass</code>, docs/ground.md",
        page,
        0,
        0,
    )
    assert html == (
        '<b><code>out</code></b> <a href="../steps/#featherlane.Model.step"><code>Model.step</code>'
        '</a> <code>mass</code>, <a href="../../ground/">ground</a>'
    )


def test_a_name_that_begins_with_another_is_no_tag():
    pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install '.[docs]'")
    search = hook("search_names")
    found = search.names()
    after = search.longer(found)
    assert {"rnea", "crba", "aba", "mj_inverse", "mjinverse", "computeminverse"} <= {
        name for names in found.values() for name in names
    }
    assert "rnea" in found["featherlane.Model.inverse_dynamics"] - after
    assert "rnea_derivatives" in found["featherlane.Model.inverse_dynamics_derivatives"] & after


def test_a_name_that_longer_words_of_titles_hide_comes_before_them():
    pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install '.[docs]'")
    search = hook("search_names")
    names = {"a": {"com", "robot"}, "b": {"crba"}}
    assert search.hidden(names, {"coming", "robots", "dynamics"}) == {"com"}
    assert search.hidden(names, {"coming", "com"}) == set()


def test_the_search_shows_our_names_first(tmp_path):
    pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install '.[docs]'")
    com = "reference/kinematics/#featherlane.Model.center_of_mass"
    ilqr = "reference/tasks/#featherlane.ilqr"
    titles = {com: "center_of_mass", ilqr: "ilqr", "a/": "Coming from", "b/": "With <code>fl.ilqr"}
    index = tmp_path / "search" / "search_index.json"
    index.parent.mkdir()
    docs = [{"location": place, "title": title, "text": ""} for place, title in titles.items()]
    index.write_text(json.dumps({"config": {"separator": r"[\s]+|\.", "fields": {}}, "docs": docs}))
    hook("search_names").on_post_build(SimpleNamespace(site_dir=tmp_path))
    first = {x["location"]: x.get("first_names") for x in json.loads(index.read_text())["docs"]}
    assert first == {com: ["com"], ilqr: ["ilqr"], "a/": None, "b/": None}
