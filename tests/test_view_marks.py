"""What is drawn beside a robot, robots in one scene, and what moves them: viser's nodes."""

import asyncio

import numpy as np
import pytest
from numpy.testing import assert_allclose

import featherlane as fl

viser = pytest.importorskip("viser", reason="viser is not installed: pip install '.[view]'")
msgspec = pytest.importorskip("msgspec")
zstandard = pytest.importorskip("zstandard")
view = pytest.importorskip("featherlane.interop.view")

HAND = "panda_link7"


@pytest.fixture
def shown():
    """`show`, whose pages are closed at the end."""
    pages = []

    def call(*args, **options):
        pages.append(view.show(*args, **{"port": 8785, **options}))
        return pages[-1]

    yield call
    for page in pages:
        page.close()


@pytest.fixture
def panda():
    return fl.load("panda")


def still(page):
    """A page of rollouts whose player does not move it."""
    page._player._play.value = False
    page._player.time.value = 0.0
    return page


def slider(page, title):
    """The slider with a title."""
    handles = page.server.gui._gui_input_handle_from_uuid.values()
    return next(x for x in handles if x.label == title)


def rotation(wxyz):
    w, *v = wxyz
    V = np.cross(np.eye(3), -np.array(v)).T  # V x = v x x
    return np.eye(3) + 2 * w * V + 2 * V @ V


def assert_pose(position, wxyz, T):
    """To the precision of viser's batches, float32."""
    assert_allclose(position, T[:3, 3], atol=1e-6)
    assert_allclose(rotation(wxyz), T[:3, :3], atol=1e-6)


# Marks


def test_frames_follow_the_robot(shown, panda):
    page = shown(panda)
    axes, label = page.add_frames(HAND, size=0.2)
    assert (axes.axes_length, label.text) == (0.2, HAND)
    for seed in range(2):
        q = panda.random_configuration(seed=seed)
        page.update(q)
        T = panda.frame_placement(q, HAND)
        assert_pose(axes.batched_positions[0], axes.batched_wxyzs[0], T)
        assert_allclose(label.position, T[:3, 3])
    assert len(page.add_frames()) == 2 * panda.nbodies


def test_a_frame_of_the_ground_stands_at_its_place(shown, panda):
    page = shown(panda, places=[1.0, 2.0, 0.0])
    (axes, _) = page.add_frames("panda_link0")
    T = panda.frame_placement(panda.neutral(), "panda_link0")
    assert_allclose(axes.batched_positions, [T[:3, 3] + [1, 2, 0]])


def test_targets_stand_where_they_are_put(shown, panda):
    page = shown(panda)
    T = panda.frame_placement(panda.random_configuration(3, seed=0), HAND)
    axes = page.add_targets(T, size=0.1)
    for n in range(3):
        assert_pose(axes.batched_positions[n], axes.batched_wxyzs[n], T[n])
    balls = page.add_targets(T[:, :3, 3], name="points")
    assert_allclose(balls.batched_positions, T[:, :3, 3], rtol=1e-6)
    assert (axes.name, balls.name) == ("/targets/targets", "/targets/points")


def test_forces_are_arrows_of_so_many_newtons_a_metre(shown, panda):
    page = shown(panda)
    (arrows,) = page.add_forces({HAND: [0, 30.0, 0]}, scale=60.0)
    q = panda.random_configuration(seed=1)
    page.update(q)
    start = panda.frame_placement(q, HAND)[:3, 3]
    assert_allclose(arrows.points[:, 0], [start], atol=1e-6)
    assert_allclose(np.diff(arrows.points, axis=1), [[[0, 0.5, 0]]], atol=1e-6)
    (arrows,) = page.add_forces({HAND: [0, 0, 7.0]})
    start, end = arrows.points[0]
    assert_allclose(end - start, [0, 0, page.size / 3], rtol=1e-5, atol=1e-6)
    (arrows,) = page.add_forces({HAND: np.zeros(3)})
    assert not len(arrows.points)


def test_forces_of_a_rollout_follow_the_time(shown):
    model = fl.load("double_pendulum")
    frame = model.body_names[-1]
    q = np.linspace([0, 0], [1, 2], 5)
    page = still(shown(model, q, dt=0.1))
    force = np.zeros((5, 3))
    force[:, 0] = [1, 2, 3, 4, 5]
    (arrows,) = page.add_forces({frame: force}, scale=1.0)
    page._player.time.value = 0.3
    start = model.frame_placement(q[3], frame)[:3, 3]
    assert_allclose(arrows.points[:, 0], [start], atol=1e-6)
    assert_allclose(np.diff(arrows.points, axis=1), [[[4, 0, 0]]], atol=1e-6)


def test_a_trajectory_is_the_line_of_a_frame(shown, panda):
    q = np.linspace(panda.neutral(), panda.random_configuration(seed=0), 6)
    page = shown(panda, q)
    (line,) = page.add_trajectories(HAND)
    points = panda.frame_placement(q, HAND)[:, :3, 3]
    assert_allclose(line.points, np.stack([points[:-1], points[1:]], 1), atol=1e-6)
    (other,) = page.add_trajectories(HAND, q[::-1])
    assert_allclose(other.points[0, 0], points[-1], atol=1e-6)


def test_long_trajectories_have_fewer_points_but_both_ends(shown):
    model = fl.load("double_pendulum")
    q = np.linspace([0, 0], [1, 2], 3000)
    frame = model.body_names[-1]
    (line,) = shown(model, q, dt=0.001).add_trajectories(frame)
    ends = model.frame_placement(q[[0, -1]], frame)[:, :3, 3]
    assert len(line.points) < 1000
    assert_allclose([line.points[0, 0], line.points[-1, 1]], ends, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda page: page.add_frames("lost"), "there is no frame 'lost'"),
        (lambda page: page.add_frames(HAND, size=0), "size is 0: wanted positive metres"),
        (lambda page: page.add_targets(np.eye(3)[:2, :2]), r"poses has shape \(2, 2\)"),
        (lambda page: page.add_targets(np.zeros((0, 3))), r"poses has shape \(0, 3\)"),
        (lambda page: page.add_targets(np.diag([1, 1, -1, 1])), "poses has a rotation that is"),
        (lambda page: page.add_targets(2 * np.eye(4)), "poses has a rotation that is none"),
        (lambda page: page.add_targets([np.nan, 0, 0]), "poses has a NaN"),
        (lambda page: page.add_targets([0, 0, 0], name=""), "name is ''"),
        (lambda page: page.add_forces([1, 2, 3]), "forces is .*wanted a dictionary"),
        (lambda page: page.add_forces({HAND: [1, 2]}), r"forces\['panda_link7'\] has shape \(2,\)"),
        (lambda page: page.add_forces({HAND: np.ones((4, 3))}), r"wanted \(3,\) or \(1, 1, 3\)"),
        (lambda page: page.add_forces({HAND: "up"}), r"forces\['panda_link7'\] is 'up'"),
        (lambda page: page.add_forces({HAND: [1, 2, 3]}, scale=-1), "scale is -1: wanted positive"),
        (lambda page: page.add_trajectories(HAND), "q has 1 row"),
        (lambda page: page.add_trajectories(HAND, np.zeros((2, 4, 8))), "q has 2 rollouts"),
        (lambda page: page.record("robot.mp4"), "path is 'robot.mp4': wanted a file .html or"),
        (lambda page: page.update(np.zeros(3)), r"q has shape \(3,\), wanted \(8,\)"),
    ],
)
def test_wrong_arguments_are_named(call, message, shown, panda):
    with pytest.raises((ValueError, TypeError), match=message):
        call(shown(panda, np.zeros(8)))


# Controls


def test_sliders_have_units_limits_and_zero_in_the_middle(shown):
    model = fl.load("so101")
    page = shown(model)
    lower, upper = model.position_limits
    for i, joint in enumerate(model.joints):
        handle = slider(page, f"{joint.name}, deg")
        if lower[i] <= 0 <= upper[i]:
            assert_allclose(handle.min, -handle.max)
        handle.value = np.rad2deg(0.5 * upper[i])
        assert_allclose(page.q[i], 0.5 * upper[i], atol=1e-12)
        handle.value = handle.max
        assert_allclose(page.q[i], upper[i], atol=1e-12)
        assert_allclose(handle.value, np.rad2deg(upper[i]))


def test_sliders_of_lengths_are_in_metres_and_follow(shown):
    page = shown(fl.load("mobile_arm"))
    lengths = [x for x in page._sliders._sliders if x[0].unit == "m"]
    assert lengths
    q = page.model.clip(page.model.random_configuration(seed=0))
    page.update(q)
    assert_allclose(page.q, q, rtol=0, atol=0)
    for coordinate, handle in page._sliders._sliders:
        value = q[coordinate.i]
        assert_allclose(handle.value, value if coordinate.unit == "m" else np.rad2deg(value))


def drag(page, position, wxyz):
    """Sends what a browser sends for a gizmo that is dragged, and waits for the page."""
    scene, gizmo = page.server.scene, page._gizmos[0].node
    message = viser._messages.TransformControlsUpdateMessage(gizmo.name, wxyz, position)
    loop = page.server.get_event_loop()
    run = scene._handle_transform_controls_updates(0, message)
    asyncio.run_coroutine_threadsafe(run, loop).result(10)
    for _ in range(100):  # at most 5 s: callbacks run in a pool of threads
        with page._lock:  # no picture is half drawn
            if np.allclose(page.q[:3], page._gizmos[0].configuration(page.q)[:3]):
                break
        page._closed.wait(0.05)


@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2, 3)])
def test_a_gizmo_moves_the_root(place, shown):
    model = fl.load("go2", root="free")
    page = shown(model, places=place)
    wxyz = np.array([0.5, 0.5, -0.5, 0.5])
    drag(page, tuple(np.add(place, [0.3, -0.2, 0.9])), tuple(wxyz))
    T = model.frame_placement(page.q, model.body_names[0])
    assert_allclose(T[:3, 3], [0.3, -0.2, 0.9], atol=1e-12)
    assert_allclose(T[:3, :3], rotation(wxyz), atol=1e-12)
    assert_pose(page.bodies[0].position - place, page.bodies[0].wxyz, T)
    assert_allclose(slider(page, f"{model.joints[0].name} y, m").value, -0.2)


def test_the_gizmo_follows_the_root(shown):
    model = fl.load("go2", root="free")
    page = shown(model)
    q = model.random_configuration(seed=0)
    page.update(q)
    node = page._gizmos[0].node
    assert_pose(node.position, node.wxyz, model.frame_placement(q, model.body_names[0]))
    assert not shown(fl.load("panda"))._gizmos


# Many robots


def test_robots_of_a_batch_stand_on_a_grid(shown, panda):
    q = panda.random_configuration((5, 4), seed=0)
    page = still(shown(panda, q, dt=0.1))
    axes, _ = page.add_frames(HAND)
    apart = np.linalg.norm(page.places[:, None] - page.places, axis=-1)[np.triu_indices(5, 1)]
    assert apart.min() > 1.0
    page._player.time.value = 0.2
    assert_allclose(page.q, q[:, 2])
    T = panda.frame_placement(q[:, 2], HAND)
    assert_allclose(axes.batched_positions, T[:, :3, 3] + page.places, atol=1e-6)
    body = panda.frame(HAND).body
    placements = view.body_placements(panda, q[:, 2])[:, body]
    nodes = [node for n, node in page._robots._nodes if n == body]
    assert nodes
    for node in nodes:
        found = node.batched_positions
        assert_allclose(found, placements[:, :3, 3] + page.places, atol=1e-6)
        for wxyz, R in zip(node.batched_wxyzs, placements[:, :3, :3], strict=True):
            assert_allclose(rotation(wxyz), R, atol=1e-6)


def test_robots_stand_at_their_own_places(shown):
    model = fl.load("go2", root="free")
    q = np.tile(model.neutral(), (3, 2, 1))
    q[:, :, 0] = [[0, 0.1], [1, 1.1], [2, 2.1]]
    page = still(shown(model, q, dt=0.1, places=np.zeros(3)))
    (node,) = page.add_frames(model.body_names[0])[::2]
    assert_allclose(node.batched_positions[:, 0], [0, 1, 2], atol=1e-6)
    with pytest.raises(ValueError, match=r"places has shape \(2, 3\), wanted \(3,\) or \(3, 3\)"):
        shown(model, q, places=np.zeros((2, 3)))


def test_many_robots_are_as_many_nodes_as_one(shown, panda):
    pages = [shown(panda, panda.random_configuration((n, 2), seed=0)) for n in (2, 30)]
    counts = [len(page.server.scene._handle_from_node_name) for page in pages]
    assert counts[0] == counts[1]


def test_a_page_of_many_configurations_is_updated(shown, panda):
    page = shown(panda, panda.random_configuration((3, 1), seed=0))
    (axes, _) = page.add_frames(HAND)
    q = panda.random_configuration(3, seed=4)
    page.update(q)
    T = panda.frame_placement(q, HAND)
    assert_allclose(axes.batched_positions, T[:, :3, 3] + page.places, atol=1e-6)


def test_collision_shapes_have_a_switch(shown):
    page = shown(fl.load("go2"))
    nodes = page._switched["collision"]
    assert len(nodes) == len(page.model.collision_shapes) > 0
    switch = slider(page, "collision")
    assert not any(node.visible for node in nodes)
    switch.value = True
    assert all(node.visible for node in nodes)


# Recordings


def messages(content):
    """The duration of a .viser recording, and its messages [(time, message)]."""
    inner = zstandard.ZstdDecompressor().decompressobj().decompress(content[8:])
    size = int.from_bytes(inner[:8], "little")
    held = msgspec.msgpack.decode(inner[8 : 8 + size])
    return held["durationSeconds"], held["messages"]


def test_a_recording_has_the_whole_rollout(tmp_path, shown):
    model = fl.load("double_pendulum")
    q = np.linspace([0, 0], [1, 2], 101)
    page = still(shown(model, q, dt=0.01))
    page._player.time.value = 0.5
    path = page.record(tmp_path / "swing.viser")
    duration, told = messages(path.read_bytes())
    assert 0.96 < duration <= 1.0
    name = page.bodies[-1].name
    sent = [
        (t, m["position"])
        for t, m in told
        if m["type"] == "SetPositionMessage" and m["name"] == name
    ]
    rows = {round(t / 0.01): p for t, p in sent}  # the last of each time
    assert len(rows) > 30
    placements = view.body_placements(model, q)
    for n, position in rows.items():
        assert_allclose(position, placements[n, -1, :3, 3], atol=1e-6)
    assert_allclose(page.q, q[50])  # where it was


def test_a_page_in_html_holds_viewer_and_scene(tmp_path, shown, panda):
    text = shown(panda).record(tmp_path / "arm.html").read_text(encoding="utf-8")
    assert "__VISER_EMBED_DATA__=" in text
    assert text.lstrip().lower().startswith("<!doctype html>")
    with pytest.raises(OSError, match="lost"):
        shown(panda).record(tmp_path / "lost" / "arm.html")
