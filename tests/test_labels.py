"""Emitted SystemVerilog has the names of a robot's joints and links, and computes the same."""

import re
import shutil
from json import loads

import numpy as np
import pytest
from test_lint import warnings

import featherlane as fl
from featherlane.accelerators.computation import Computation
from featherlane.accelerators.designers import Designer
from featherlane.accelerators.robot_labels import labels_of
from featherlane.backends.fpga.labels import WordPlace, word_comments

HOSTILE = [  # names as files may have them: pairs that are alike in SystemVerilog among them
    "a b",
    "a_b",
    "endmodule",
    '*/ "x" //\\',
    "verilator lint_off WIDTH\nwire broken",
    "Gelenk Ä関節",
    "r0",
    "x" * 300,
]


def arm(joints, links=None):
    builder = fl.ModelBuilder("arm")
    builder.link("base")
    links = ["base", *(links or [f"link {k}" for k in range(len(joints))])]
    for k, name in enumerate(joints):
        builder.link(links[k + 1], mass=1.0, com=(0.1, 0.0, 0.2), inertia=0.01 * np.eye(3))
        turned = {"rpy": (0.2, 0.3 * k, 0.1), "xyz": (0.0, 0.1, 0.3)}
        limits = {"lower": -2.0, "upper": 2.0, "velocity": 3.0, "effort": 20.0}
        builder.joint(name, "revolute", *links[k : k + 2], axis=(0, k % 2, 1), **turned, **limits)
    return builder.build()


def code(text):
    """Statements without comments and spaces, each signal with a declaration of its own."""
    plain = re.sub(r" *//.*", "", text)
    declared = re.sub(
        r"^( *(?:\(\*.*\*\) )?logic (?:signed )?(?:\[[^]]*\] )?)(\w+(?:, \w+)+);$",
        lambda m: "\n".join(f"{m[1]}{name};" for name in m[2].split(", ")),
        plain,
        flags=re.MULTILINE,
    )
    return "".join(declared.split())


def test_ports_modules_and_results_name_joints_and_links():
    made = fl.accelerator(arm(["shoulder", "elbow"], ["upper", "fore"]), interval=4)
    sources = {name.removeprefix(f"{made.name}_"): t for name, t in made.design.sources.items()}
    head, _, body = sources["Rf2.sv"].partition("\nmodule ")
    assert 'recursive Newton-Euler, outward, joint "elbow", link "fore"' in " ".join(
        line.removeprefix("// ") for line in head.splitlines()
    )
    assert re.search(r'input .* in_q_1_elbow\w*,  // q of joint "elbow"\n', body)
    assert re.search(r'input .* Rf1_\d+\w*,  // from joint "shoulder"\n', body)
    wires = sources["datapath.sv"]
    assert re.search(r'assign in_v_0_shoulder = given\[.*\];  // v of joint "shoulder"\n', wires)
    assert re.search(r'assign results\[.*\] = \w+;  // tau of joint "elbow"\n', wires)
    assert f"{made.name}_Rb2 part_{made.name}_Rb2_elbow (" in wires


def test_the_head_of_the_top_module_tells_what_names_stand_for():
    made = fl.accelerator(arm(["shoulder", "elbow"], ["upper", "fore"]), "mass_matrix_inverse")
    head, _, _ = made.design.sources[f"{made.name}.sv"].partition("\nmodule ")
    told = {*re.findall(r"^// (\w+): ", head, re.MULTILINE)}
    parts = {name.removeprefix(f"{made.name}_") for name in made.design.units}
    passes = {re.sub(r"_c\d+$", "", part) for part in parts if re.match(r"[A-Z][fbc]\d", part)}
    assert passes
    assert told >= passes
    assert 'inward, joint "elbow"' in " ".join(head.replace("// ", "").split())
    for name in told:
        assert any(name in text.partition("\nmodule ")[2] for text in made.design.sources.values())


def test_modules_tell_quantities_and_for_whom_units_are():
    sources = fl.accelerator(arm(["shoulder", "elbow"]), interval=4).design.sources
    (backward,) = (text for name, text in sources.items() if name.endswith("_Rb2.sv"))
    assert "// Computes: torque of the joint" in backward
    made = fl.accelerator(arm(["shoulder", "elbow"]), interval=8, datapath="memories")
    graph = made.design.schedule.datapath.graph
    heads = [
        text.partition("\nmodule ")[0].replace("\n//     ", " ")
        for name, text in made.design.sources.items()
        if re.search(r"_multiply_\d+\.sv$", name)
    ]
    counts = [int(n) for head in heads for n in re.findall(r'joint "\w+" \((\d+)\)', head)]
    operations = [x for x in made.design.schedule.operations if x.kind == "multiply"]
    tagged = [x for x in operations if graph.tag[x.gives[0]] is not None]
    assert sum(counts) == sum(x.cycles for x in tagged) > 20


def test_names_change_nothing_else():
    made = fl.accelerator(fl.load("double_pendulum"), interval=4)
    computation = Computation.of(made.model, made.spec)
    bare, _, _ = Designer(made.name, made.spec).best(computation.flat, made.interval)
    assert bare.sources.keys() == made.design.sources.keys()
    for name, text in made.design.sources.items():
        unnamed = re.sub(r"(in_[qva]_\d|part_\w+_R[fb]\d)_joint\d", r"\1", code(text))
        assert unnamed == code(bare.sources[name])
        assert "joint" not in bare.sources[name]


@pytest.mark.skipif(not shutil.which("verilator"), reason="verilator is not installed")
def test_no_name_breaks_a_file(tmp_path):
    made = fl.accelerator(arm(HOSTILE[:4], HOSTILE[4:]), interval=3)
    assert warnings(tmp_path, made.design.sources) == []
    for text in made.design.sources.values():
        assert all(len(name) < 150 for name in re.findall(r"\w+", code(text)))
    states = made.samples(3)
    assert (made.simulate(states).results["tau"] == made.function(**states)).all()


def test_every_name_is_shown_and_signals_stay_apart():
    made = fl.accelerator(arm(HOSTILE), "mass_matrix", interval=8)
    wires = made.design.sources[f"{made.name}_datapath.sv"]
    signals = re.findall(r"assign (in_q_\w+) = given", wires)
    assert len({*signals}) == len(signals) == made.model.nq - 1  # nothing depends on the first
    labels = labels_of(made.model, made.datapath.graph)
    texts = [labels.entries["q", k] for k in range(made.model.nq)]
    assert texts[:2] == ['q of joint "a_b"', 'q of joint "a_b"']
    assert texts[5] == 'q of joint "Gelenk_Ä関節"'
    assert len(texts[7]) < 80
    assert labels.entries["M", 10] == 'M of joints "a_b", "endmodule"'
    assert labels.words["q", 2] == "endmodule"


def test_joints_of_several_coordinates_and_bodies():
    builder = fl.ModelBuilder("mixed")
    builder.link("base")
    for k, (name, kind) in enumerate([("ball", "spherical"), ("cross", "universal")]):
        builder.link(f"b{k}", mass=1.0, com=(0.1, 0.0, 0.2), inertia=0.01 * np.eye(3))
        axes = {"axis": (1, 0, 0), "axis2": (0, 1, 0)} if kind == "universal" else {}
        builder.joint(name, kind, f"b{k - 1}" if k else "base", f"b{k}", **axes)
    model = builder.build()
    labels = labels_of(model, model.graph("inverse_dynamics"))
    assert labels.entries["q", 3] == 'q of joint "ball" (4 of 4)'
    assert labels.entries["v", 2] == 'v of joint "ball" (3 of 3)'
    assert labels.entries["q", 5] == 'q of joint "cross" (2 of 2)'
    places = {tag: part.word for tag, part in labels.parts.items() if tag.startswith("Rf")}
    assert places == {"Rf1": "ball", "Rf2": "cross", "Rf3": "cross"}


def test_slots_of_arrays_name_the_joints_of_all_limbs():
    options = {"interval": 12, "format": "fitted", "arrays": "limbs"}
    made = fl.accelerator(fl.load("hyq", root="free"), "inverse_dynamics", **options)
    text = "".join(made.design.sources.values())
    joints = [f'"{leg}_hfe_joint"' for leg in ("lf", "lh", "rf", "rh")]
    assert f"// {'; '.join(f'v of joint {joint}' for joint in joints)}\n" in text
    heads = " ".join(line.removeprefix("// ") for line in text.splitlines() if line[:2] == "//")
    assert re.search(rf"outward, joint {joints[0]}, link \S+; joint {joints[1]}, link", heads)


def test_stations_name_what_they_take_from_each_other():
    made = fl.multifunction(fl.load("double_pendulum"), interval=8)
    text = made.circuit.sources[f"{made.name}_factor_datapath.sv"]
    assert re.search(r'assign in_pass_M_\d+ = .*// M of joints "joint\d", "joint\d"\n', text)
    assert re.search(r'assign results\[.*// Minv of joints "joint\d", "joint\d"\n', text)


def test_the_facts_of_words_have_labels(tmp_path):
    made = fl.accelerator(fl.load("double_pendulum"), interval=4)
    made.write(tmp_path, 1)
    facts = loads((tmp_path / "design.json").read_text())
    assert facts["inputs"][1]["label"] == 'q of joint "joint2"'
    assert [field["label"] for field in facts["outputs"]] == [
        f'tau of joint "joint{k}"' for k in (1, 2)
    ]


def test_words_of_boards_name_joints():
    made = fl.accelerator(arm(["shoulder", "elbow"]), interval=4, board="ulx3s")
    axi = made.board(128).wrapped.sources[f"{made.name}_axi.sv"]
    serial = made.board_design.serial.sources[f"{made.name}_serial.sv"]
    joints = "shoulder", "elbow"
    for signal, words in (("in_data", made.core.tasks), ("out_data", made.core.results)):
        for field in words.fields:
            name, position = field.entries[0]
            bits = f"{signal}[{field.offset + field.width - 1}:{field.offset}]"
            line = f'  // {bits}: {name} of joint "{joints[position]}"\n'
            assert line in axi
            assert line in serial


def test_words_of_networks_name_functions_and_joints():
    functions = ["inverse_dynamics", "mass_matrix"]
    made = fl.multifunction(arm(["shoulder", "elbow"]), functions, interval=4)
    decode, encode = (made.circuit.sources[f"{made.name}_{x}.sv"] for x in ("decode", "encode"))
    assert "  // data[1:0]: the function, 0 inverse_dynamics, 2 mass_matrix\n" in decode
    assert re.search(r'  // data\[\d+:\d+\]: q of joint "elbow"\n', decode)
    assert re.search(r'  // data\[\d+:\d+\], inverse_dynamics: a of joint "shoulder"\n', decode)
    line = r'  // out_data\[\d+:\d+\], mass_matrix: M of joints "shoulder", "elbow"\n'
    assert re.search(line, encode)
    assert re.search(r'out_data\[\d+:\d+\], inverse_dynamics: tau of joint "elbow"\n', encode)
    wrapped = made.board(64).wrapped.sources[f"{made.name}_axi.sv"]
    assert re.search(line, wrapped)
    assert "// in_data[1:0]: the function: 0 inverse_dynamics, 2 mass_matrix\n" in wrapped


def test_entries_of_a_large_matrix_share_a_line():
    places = [WordPlace(("M", n), 18 * n, 18) for n in range(49)]
    entries = {("M", n): f"entry {n}" for n in range(49)}
    assert word_comments("word", places, entries) == [
        "word[881:0]: 49 entries, entry 0 to entry 48"
    ]
    assert word_comments("word", places[:2], {}) == ["word[17:0]: M[0]", "word[35:18]: M[1]"]
