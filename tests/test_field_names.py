"""The field's names for what the package has, and words that are nearly right: errors say which one
was meant.
"""

import copy
import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import featherlane as fl
from featherlane import field_names
from featherlane.errors import nearest, no_attribute
from featherlane.functions.table import CALLED
from featherlane.interop.wrapped import WrappedModel


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum")


# The table


@pytest.mark.parametrize("call", field_names.CALLS)
def test_every_call_of_the_table_can_be_written(arm, call):
    name, _, arguments = call.removesuffix(")").partition("(")
    wanted = [x.strip() for x in arguments.split(",") if x.strip()]
    takes = inspect.signature(getattr(arm, name))
    takes.bind_partial(*wanted)
    if not arguments.startswith("{"):
        assert [*takes.parameters][: len(wanted)] == wanted


@pytest.mark.parametrize("call", field_names.OF_MODULE)
def test_every_call_of_the_module_can_be_written(call):
    name, _, arguments = call.removesuffix(")").partition("(")
    wanted = arguments.split(", ")
    assert [*inspect.signature(getattr(fl, name)).parameters][: len(wanted)] == wanted


@pytest.mark.parametrize("name", field_names.ATTRIBUTES)
def test_every_attribute_of_the_table_is_one(arm, name):
    assert hasattr(arm, name)


@pytest.mark.parametrize(
    "table", ["CALLS", "OF_MODULE", "ATTRIBUTES", "VALUES", "ARGUMENTS", "NOT_NEEDED"]
)
def test_a_table_has_a_word_once(table):
    words = [
        field_names.folded(word)
        for ours, words in getattr(field_names, table).items()
        for word in words.split()
    ]
    assert sorted(set(words)) == sorted(words)


# Everywhere a function is named

FIELD = {  # Pinocchio, MuJoCo, Drake, GRiD, JaxSim
    "rnea": "inverse_dynamics",
    "mj_inverse": "inverse_dynamics",
    "CalcInverseDynamics": "inverse_dynamics",
    "aba": "forward_dynamics",
    "fd": "forward_dynamics",
    "mj_forward": "forward_dynamics",
    "crba": "mass_matrix",
    "mj_fullM": "mass_matrix",
    "CalcMassMatrix": "mass_matrix",
    "free_floating_mass_matrix": "mass_matrix",
    "computeMinverse": "mass_matrix_inverse",
    "direct_minv": "mass_matrix_inverse",
    "computeRNEADerivatives": "inverse_dynamics_derivatives",
    "mjd_inverseFD": "inverse_dynamics_derivatives",
    "dfd": "forward_dynamics_derivatives",
    "forward_dynamics_gradient": "forward_dynamics_derivatives",
    "nle": "bias_force",
    "qfrc_bias": "bias_force",
}


@pytest.mark.parametrize(("word", "ours"), FIELD.items())
def test_methods_by_the_names_of_the_field(arm, word, ours):
    call = next(call for call in field_names.CALLS if call.startswith(f"{ours}("))
    with pytest.raises(AttributeError, match=re.escape(f"{word} is {ours}: model.{call}")):
        getattr(arm, word)
    with pytest.raises(AttributeError, match=re.escape(f"{word} is {ours}: model.{call}, with")):
        getattr(fl, word)
    assert not hasattr(arm, word)
    assert not hasattr(fl, word)
    with pytest.raises(ValueError, match=f"there is no function '{word}': {word} is {ours}$"):
        arm.function(word)
    with pytest.raises(ValueError, match=f"there is no function '{word}': {word} is {ours}$"):
        fl.compile(lambda q: fl.call(arm, word, q), {"q": 2})


def test_methods_of_models_are_no_functions_of_the_package():
    with pytest.raises(AttributeError, match=r"is a method of models: model\.forward_dynamics\(q"):
        fl.forward_dynamics  # noqa: B018
    with pytest.raises(AttributeError, match=r"jit is compile: fl\.compile\(function, inputs\)"):
        fl.jit  # noqa: B018
    with pytest.raises(AttributeError, match=r"buildModelFromUrdf is load: fl\.load\(source"):
        fl.buildModelFromUrdf  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'laod'; did you mean 'load'\?$"):
        fl.laod  # noqa: B018


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("njoints", "njoints is nbodies: model.nbodies"),
        ("upperPositionLimit", "upperPositionLimit is position_limits: model.position_limits"),
        ("createData", "functions of arrays need no data object"),
        ("vmap", "methods take leading dimensions"),
        ("torch", "from featherlane.interop.torch import wrap"),
        ("mass_matrx", r"'Model' object has no attribute 'mass_matrx'; did you mean 'mass_matrix'"),
        ("zzz", "'Model' object has no attribute 'zzz'$"),
        ("__array__", "'Model' object has no attribute '__array__'$"),
    ],
)
def test_attributes_that_models_lack(arm, name, message):
    with pytest.raises(AttributeError, match=message) as caught:
        getattr(arm, name)
    assert caught.value.name == name


def test_properties_that_fail_say_why():
    class Broken(fl.Model):
        @property
        def pay_load(self):
            return self.parameters_of_the_load

    broken = Broken(**fl.load("double_pendulum")._fields())
    with pytest.raises(AttributeError, match="no attribute 'parameters_of_the_load'"):
        broken.pay_load  # noqa: B018


def test_python_adds_no_guess_of_its_own(arm):
    code = "import featherlane as fl; fl.load('double_pendulum').fd"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = ran.stderr.splitlines()[-1]
    assert last == ("AttributeError: fd is forward_dynamics: model.forward_dynamics(q, v, tau)")


def test_models_are_copied_pickled_and_listed_as_before(arm):
    for twin in (copy.copy(arm), copy.deepcopy(arm), pickle.loads(pickle.dumps(arm))):
        assert twin.fingerprint == arm.fingerprint
    assert "rnea" not in dir(arm)
    assert "rnea" not in dir(fl)
    assert not hasattr(object.__new__(fl.Model), "joints")  # a model that is being unpickled


def test_wrapped_models_answer_alike(arm):
    wrapped = WrappedModel(arm, lambda variant, arrays: arrays, lambda model: None)
    with pytest.raises(AttributeError, match=r"rnea is inverse_dynamics: wrap\(model\)\.inverse"):
        wrapped.rnea  # noqa: B018
    assert not hasattr(wrapped, "aba")
    for name in ("nq", "joints", "random_configuration"):
        with pytest.raises(AttributeError, match=rf"^{name} .*: wrap\(model\)\.model\.{name}$"):
            getattr(wrapped, name)
        assert hasattr(wrapped.model, name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "double_pendulum", "--function", "rnea"), "inverse_dynamics"),
        (("generate", "double_pendulum", "--function", "crba"), "mass_matrix"),
        (("info", "double_pendulum", "--root", "freeflyer"), "free"),
    ],
)
def test_the_command_line_knows_the_field(capsys, arguments, message):
    from featherlane.tools.cli import main

    with pytest.raises(SystemExit):
        main(arguments)
    assert re.search(f"(is|mean) '?{message}", capsys.readouterr().err)


# Values that are nearly right


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: m.step(*x, 0.01, integrator="RK4"), "integrator is 'RK4'.*mean 'rk4'"),
        (lambda m, x: m.step(*x, 0.01, integrator="symplectic"), "mean 'semi_implicit'"),
        (lambda m, x: m.step(*x, 0.01, integrator="explicit_euler"), "mean 'euler'"),
        (lambda m, x: fl.load("double_pendulum", root="freeflyer"), "root is.*mean 'free'"),
        (lambda m, x: fl.load("double_pendulum", root="floating"), "mean 'free'"),
        (lambda m, x: fl.load("double_pendulum", root="Free"), "mean 'free'"),
        (lambda m, x: m.jacobian(x[0], "link2", "LOCAL"), "reference.*mean 'body'"),
        (lambda m, x: m.jacobian(x[0], "link2", "LOCAL_WORLD_ALIGNED"), "mean 'world'"),
        (lambda m, x: m.jacobian(x[0], "link2", "WORLD"), "mean 'spatial'"),
        (lambda m, x: m.forward_dynamics(*x, method="ABA"), "method of.*mean 'aba'"),
        (lambda m, x: m.inverse_dynamics(*x, f_ext=np.zeros((2, 6)), f_ext_frame="local"),
         "f_ext_frame is 'local'.*mean 'body'"),
        (lambda m, x: m.inverse_dynamics(*x, params={"rotor_inertia": 1.0}), "is armature"),
        (lambda m, x: fl.load("double_pendulum", joint_order="dfs"), "joint_order is 'dfs'"),
        (lambda m, x: fl.load("double_pendulum", joint_order="depth_first"), "mean 'depth-first'"),
        (lambda m, x: fl.load("double_pendulum", mimic="Keep"), "mimic is 'Keep'"),
        (lambda m, x: m.function("step", backend="cuda"), "a device: device='cuda'"),
        (lambda m, x: m.function("step", device="gpu"), "mean 'cuda'"),
        (lambda m, x: fl.generate(m, "x", target="CUDA"), "target is 'CUDA'"),
    ],
)  # fmt: skip
def test_words_that_are_nearly_right(arm, call, message):
    with pytest.raises(ValueError, match=message):
        call(arm, (np.zeros(2), np.zeros(2), np.zeros(2)))


def test_references_of_pinocchio_are_known(arm):
    pin = pytest.importorskip("pinocchio")
    wanted = {"LOCAL": "body", "WORLD": "spatial", "LOCAL_WORLD_ALIGNED": "world"}
    for name, ours in wanted.items():
        with pytest.raises(ValueError, match=f"did you mean '{ours}'"):
            arm.jacobian(np.zeros(2), "link2", getattr(pin.ReferenceFrame, name))


def test_joints_in_the_place_of_frames_and_the_reverse(arm):
    J = arm.jacobian(np.zeros(2), "joint2")
    np.testing.assert_array_equal(J, arm.jacobian(np.zeros(2), "link2"))
    with pytest.raises(ValueError, match=r"no joint 'link2': that is a frame; .* is 'joint2'"):
        arm.joint("link2")
    with pytest.raises(ValueError, match=r"no joint 'base_link': that is a frame, on the ground"):
        arm.joint("base_link")
    with pytest.raises(ValueError, match=r"no joint 'link2': that is a frame; .* is 'joint2'"):
        arm.reduced({"link2": 0.0})
    with pytest.raises(ValueError, match=r"no joint 'link2': that is a frame; .* is 'joint2'"):
        arm.actuation(["link2"])
    assert arm.inverse_dynamics(*np.zeros((3, 2)), f_ext={"joint2": np.zeros(6)}).shape == (2,)


def test_joints_in_the_place_of_bodies():
    free = fl.load("double_pendulum", root="free")
    with pytest.raises(ValueError, match="'joint2' is a joint, which moves the body 'link2'"):
        free.rerooted("joint2")
    with pytest.raises(ValueError, match=r"no joint 'joint22' \(did you mean 'joint2'"):
        free.renamed(joints={"joint22": "elbow"})
    with pytest.raises(ValueError, match=r"joint_types is .*did you mean 'revolute'"):
        fl.random_tree(3, joint_types=["hinge"])


def test_case_hyphens_and_underscores_do_not_count():
    assert nearest("RK-4", ["euler", "rk4"]) == ["rk4"]
    assert nearest("Inverse-Dynamics", CALLED)[0] == "inverse_dynamics"
    assert nearest("zzz", CALLED) == []
    assert "did you mean" not in str(no_attribute("_private", "it", ["private"], "it."))


# Models hold no state


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("damping", r"'damping' cannot be set: model\.with_physics\(damping=\.\.\.\) gives"),
        ("gravity", r"'gravity' cannot be set: model\.with_gravity\(\.\.\.\) gives"),
        ("position_limits", "models are immutable, 'position_limits' cannot be set$"),
        ("nv", "'nv' cannot be set$"),
        ("anything", "'anything' cannot be set$"),
    ],
)
def test_no_attribute_of_a_model_can_be_set(name, message):
    model = fl.load("double_pendulum")
    before = getattr(model, name, None)
    with pytest.raises(AttributeError, match=message):
        setattr(model, name, 1.0)
    assert getattr(model, name, None) is before
    with pytest.raises(AttributeError, match="cannot be deleted"):
        delattr(model, name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("qpos", "holds no state, q, v and tau are arguments"),
        ("opt", "they are arguments: model.step"),
        ("to", "computes where its arrays are"),
        ("ilqr", "ilqr is a function of the package: fl.ilqr(model, q0, v0, tau, dt, cost)"),
        ("trace", "trace is a function of the package: fl.trace(function, inputs)"),
    ],
)
def test_what_models_of_other_libraries_have(arm, name, message):
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(arm, name)


@pytest.mark.parametrize("name", ["torch", "jax", "casadi", "dask"])
def test_frameworks_are_named_as_they_are_imported(name):
    with pytest.raises(AttributeError, match=rf"from featherlane\.interop\.{name} import"):
        getattr(fl, name)


def test_options_by_position(arm):
    x = np.zeros((3, 2))
    with pytest.raises(TypeError, match=r"f_ext is 'rk4': .*integrator= .* go by keyword"):
        arm.step(*x, 0.01, "rk4")
    with pytest.raises(ValueError, match=r"^f_ext is 'rk4': .* other options go by keyword$"):
        arm.function("step", "rk4")


def test_configurations_and_srdf_files_that_are_not_there(arm):
    with pytest.raises(KeyError, match="no configuration 'home': the robot's files name none"):
        arm.configurations["home"]
    states = """<robot name="x"><group_state name="raised" group="g">
    <joint name="joint1" value="1"/></group_state></robot>"""
    raised = fl.load("double_pendulum", srdf=states)
    with pytest.raises(KeyError, match="no configuration 'home'; wanted one of raised"):
        raised.configurations["home"]
    assert raised.configurations.get("home") is None
    assert [*pickle.loads(pickle.dumps(raised)).configurations] == ["raised"]
    with pytest.raises(fl.ModelError, match=r"^srdf is 'no\.srdf': there is no such file$"):
        fl.load("double_pendulum", srdf="no.srdf")
