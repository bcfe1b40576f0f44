"""Small robots whose files are mutated: every joint type, and most elements of MJCF."""

INERTIAL = (
    '<inertial><origin xyz="0 0.1 0.2" rpy="0 0.1 0"/><mass value="1.5"/>'
    '<inertia ixx="1" ixy="0.1" ixz="0" iyy="1.2" iyz="0" izz="1.4"/></inertial>'
)


def _urdf_joint(i, kind, inside=""):
    return (
        f'<link name="l{i + 1}">{INERTIAL}<visual><geometry><mesh filename="package://a/b.stl"/>'
        f'</geometry></visual></link>\n<joint name="j{i}" type="{kind}">'
        f'<parent link="l{i}"/><child link="l{i + 1}"/>'
        f'<origin xyz="0.1 0 {i}" rpy="0.1 0 -0.2"/>{inside}</joint>\n'
    )


AXIS = '<axis xyz="0 0.6 0.8"/>'
LIMIT = '<limit lower="-1" upper="2" effort="10" velocity="3"/>'
URDF = (
    '<?xml version="1.0"?>\n<robot name="all">\n<link name="l0"/>\n'
    + _urdf_joint(0, "revolute", AXIS + LIMIT + '<dynamics damping="0.1" friction="0.2"/>')
    + _urdf_joint(1, "continuous", AXIS)
    + _urdf_joint(2, "prismatic", AXIS + LIMIT)
    + _urdf_joint(3, "fixed")
    + _urdf_joint(4, "planar", '<axis xyz="0 0 1"/>')
    + _urdf_joint(5, "floating")
    + _urdf_joint(6, "revolute", '<mimic joint="j0" multiplier="-2" offset="0.1"/>')
    + '<transmission name="t"/><gazebo reference="l1"/>\n</robot>'
)
QUATERNION = (
    '<robot name="q" version="1.2"><link name="a"/><link name="b">' + INERTIAL + "</link>"
    '<joint name="j" type="revolute"><parent link="a"/><child link="b"/>'
    '<origin xyz="0 0 1" quat_xyzw="0 0 0.6 0.8"/></joint></robot>'
)

GEOM = '<geom type="box" size=".1 .2 .3" pos=".05 0 -.1" euler="10 20 30" density="300"/>'
ARM = f"""<mujoco model="arm">
  <compiler angle="degree" eulerseq="xyz" autolimits="true" balanceinertia="false"/>
  <option gravity="0 0 -9.81" timestep="0.002" density="0"><flag damper="enable"/></option>
  <default><joint damping="0.1"/><default class="thin"><geom size="0.05 0.2" type="capsule"/>
    </default></default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="trunk" pos="0 0 1"><freejoint name="root"/>{GEOM}
      <body name="upper" euler="0 30 0" childclass="thin">
        <joint name="yaw" axis="0 0 1" range="-90 90" stiffness="1"/>
        <joint name="pitch" axis="0 1 0" pos="0 0 0.1" ref="10" armature="0.01"/>
        <geom/><site name="grip" pos="0 0 0.2"/><camera name="eye"/><light/>
        <body name="fore" pos="0 0 0.4">
          <joint name="slide" type="slide" axis="1 0 0" frictionloss="0.2"/>
          <inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body>
        <body name="palm" quat="1 0 0 1" gravcomp="1"><joint name="ball" type="ball"/><geom/></body>
      </body>
    </body>
    <body name="target" mocap="true"><geom size=".1"/></body>
  </worldbody>
  <equality><joint joint1="slide" joint2="yaw" polycoef="0.1 0.5 0 0 0"/></equality>
  <contact><exclude body1="trunk" body2="fore"/></contact>
</mujoco>"""
MACHINE = f"""<mujoco model="machine">
  <compiler inertiafromgeom="true" settotalmass="7" boundinertia=".01"/>
  <size nuserdata="2" nkey="1" nuser_body="1"/>
  <asset><texture name="t" type="2d" builtin="checker" width="16" height="16"/>
    <material name="m" texture="t"/><hfield name="h" nrow="3" ncol="3" size="1 1 1 1"/>
    <mesh name="tetra" vertex="0 0 0 .3 0 0 0 .4 0 0 0 .5 .2 .2 .2"/></asset>
  <worldbody>
    <geom type="hfield" hfield="h" material="m"/>
    <body name="a" pos="0 0 1"><joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" axis="0 1 0" range="-1 1"/>{GEOM}<site name="s1" pos=".1 0 0"/>
      <geom type="mesh" mesh="tetra"/>
      <body name="b" pos="0 0 .5"><joint name="z" axis="1 0 0"/>
        <geom name="wrap" type="sphere" size=".1"/><site name="s2" pos="0 0 .3"/></body></body>
    <frame euler="0 0 30"><replicate count="3" offset=".5 0 0"><body><joint/>{GEOM}</body>
      </replicate></frame>
    <body name="c"><geom size=".1" fromto="0 0 0 0 0 1" type="capsule"/></body>
  </worldbody>
  <tendon><spatial name="cord" stiffness="1"><site site="s1"/><geom geom="wrap"/><site site="s2"/>
    </spatial><fixed name="sum"><joint joint="x" coef="1"/><joint joint="y" coef="-1"/></fixed>
  </tendon>
  <actuator><motor joint="y" gear="3" armature=".5" damping=".7"/>
    <position joint="z" kp="10" dampratio="1"/><muscle tendon="cord" lengthrange="0 1"/>
    <general joint="x" dyntype="filter" dynprm="1"/></actuator>
  <sensor><jointpos joint="x"/><accelerometer site="s1"/></sensor>
  <equality><weld body1="b" body2="c" active="false"/><connect body1="a" body2="c" anchor="0 0 0"/>
  </equality>
  <keyframe><key name="home" qpos="0 0 0 0 0 0"/></keyframe>
</mujoco>"""
SOFT = """<mujoco model="soft"><worldbody>
  <body name="b"><joint/><geom size=".1"/>
    <flexcomp name="cloth" type="grid" count="4 4 1" spacing=".1 .1 .1" radius=".01" dim="2"
      mass="1">
      <edge equality="true"/><pin id="0 3"/></flexcomp></body>
</worldbody></mujoco>"""
LEG = f"""<mujoco model="leg"><worldbody>
  <body name="leg"><joint name="hip" axis="0 1 0"/>{GEOM}</body></worldbody></mujoco>"""
PARTS = """<mujoco model="parts">
  <compiler meshdir="meshes"/><include file="parts/options.xml"/>
  <asset><model name="leg" file="leg.xml"/><mesh name="m" file="tetra.obj"/></asset>
  <worldbody><body name="hub"><freejoint/><geom type="mesh" mesh="m"/>
    <frame pos="0 1 0"><attach model="leg" body="leg" prefix="left_"/></frame>
    <replicate count="2" euler="0 0 1"><attach model="leg" body="leg" prefix="r"/></replicate>
    <include file="body.xml"/></body></worldbody></mujoco>"""
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
INCLUDED = {
    "parts/options.xml": '<mujoco><option gravity="0 0 -1"/><default><joint damping="1"/></default>'
    "</mujoco>",
    "body.xml": f'<mujocoinclude><body name="tail"><joint name="wag"/>{GEOM}</body>'
    "</mujocoinclude>",
    "leg.xml": LEG,
    "meshes/tetra.obj": OBJ,
}

ROBOTS = (  # the files of each, the main one first
    {"all.urdf": URDF},
    {"quaternion.urdf": QUATERNION},
    {"arm.xml": ARM},
    {"machine.xml": MACHINE},
    {"soft.xml": SOFT},
    {"leg.mjcf": LEG},
    {"parts.xml": PARTS} | INCLUDED,
)
