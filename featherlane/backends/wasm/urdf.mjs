// URDF: kinematics, inertia, limits, damping, mimics and collision shapes. Results are robots as
// `dynamics.mjs` takes them.

const URDF_MOVING = { revolute: 'revolute', continuous: 'revolute', prismatic: 'prismatic' }

function urdfRobot(root) {
  const links = new Map(childrenOf(root, 'link').map(link => [link.attributes.name, link]))
  const joints = childrenOf(root, 'joint').filter(joint => childOf(joint, 'child'))
  joints.sort((x, y) => x.attributes.name < y.attributes.name ? -1 : 1)
  const ends = joints.map(joint => ['parent', 'child'].map(end => linkAt(joint, end, links)))
  const bases = [...links.keys()].filter(name => !ends.some(([, child]) => child === name))
  if (bases.length !== 1) throw new Error(`${bases.length} links have no parent; wanted one`)
  const robot = emptyRobot(root.attributes.name ?? 'robot', [0, 0, -9.81])
  const mimics = []
  const add = (link, parent, joint) => {
    const body = robot.bodies.push(urdfBody(links.get(link), parent, joint)) - 1
    const mimic = joint && childOf(joint, 'mimic')
    if (mimic && robot.bodies[body].kind !== 'fixed') mimics.push([body, mimic])
    else if (joint) addCoordinate(robot, body, joint.attributes.name, ...urdfLimits(joint))
    robot.shapes.push(...childrenOf(links.get(link), 'collision')
      .flatMap(collision => urdfShape(collision, body)))
    ends.forEach(([from, to], n) => { if (from === link) add(to, body, joints[n]) })
  }
  add(bases[0], -1)
  const meshes = [...links.values()].flatMap(meshesOf).length
  if (meshes) robot.notes.push(`not read: meshes (${meshes})`)
  if (robot.bodies.length < links.size) throw new Error('links form a loop apart from the base')
  for (const [body, mimic] of mimics) follow(robot, robot.bodies[body], mimic)
  return robot
}

function linkAt(joint, end, links) {
  const name = childOf(joint, end)?.attributes.link
  if (!links.has(name)) throw fault(joint, `its ${end} is '${name}', which is no link`)
  return name
}

function urdfBody(link, parent, joint) {
  const inertial = childOf(link, 'inertial'), body = emptyBody(link.attributes.name, parent)
  if (inertial) {
    const place = urdfOrigin(inertial), moments = childOf(inertial, 'inertia')
    const [xx, xy, xz, yy, yz, zz] = ['ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'].map(
      name => numberOf(moments ?? inertial, name))
    const I = [xx, xy, xz, xy, yy, yz, xz, yz, zz]
    body.mass = numberOf(childOf(inertial, 'mass') ?? inertial, 'value')
    body.com = place.p
    body.inertia = inAxes(place.R, I)
  }
  if (!joint) return body
  const type = joint.attributes.type
  if (type !== 'fixed' && !URDF_MOVING[type]) throw fault(joint, refusal(`a ${type} joint`))
  const axis = numbersOf(childOf(joint, 'axis'), 'xyz', [1, 0, 0])
  Object.assign(body, urdfOrigin(joint), { kind: URDF_MOVING[type] ?? 'fixed' })
  if (body.kind !== 'fixed') body.axis = unit(axis, joint)
  for (const name of ['damping', 'friction']) {
    body[name] = numberOf(childOf(joint, 'dynamics'), name, 0)
  }
  return body
}

function urdfOrigin(element) {
  const origin = childOf(element, 'origin')
  const [x, y, z] = numbersOf(origin, 'rpy', [0, 0, 0])
  const R = product(product(turn([0, 0, 1], z), turn([0, 1, 0], y)), turn([1, 0, 0], x))
  return { R, p: numbersOf(origin, 'xyz', [0, 0, 0]) }
}

function urdfLimits(joint) {
  const limit = joint.attributes.type === 'continuous' ? undefined : childOf(joint, 'limit')
  return [numberOf(limit, 'lower', 0), numberOf(limit, 'upper', 0)]
}

function follow(robot, body, mimic) {
  const leader = robot.coordinates.findIndex(c => c.name === mimic.attributes.joint)
  if (leader < 0) throw fault(mimic, `'${mimic.attributes.joint}' is no joint that moves by itself`)
  body.coordinate = leader
  body.multiplier = numberOf(mimic, 'multiplier', 1)
  body.offset = numberOf(mimic, 'offset', 0)
}

function urdfShape(collision, body) {
  const shape = childOf(collision, 'geometry')?.children[0], place = urdfOrigin(collision)
  const size = {
    box: () => numbersOf(shape, 'size', undefined, 3).map(x => x / 2),
    sphere: () => [numberOf(shape, 'radius')],
    cylinder: () => [numberOf(shape, 'radius'), numberOf(shape, 'length') / 2],
    capsule: () => [numberOf(shape, 'radius'), numberOf(shape, 'length') / 2],
  }[shape?.tag]
  return size ? [{ body, kind: shape.tag, size: size(), ...place }] : []
}

/** The meshes that a link is drawn with, or touches with. */
function meshesOf(link) {
  return link.children.map(child => childOf(child, 'geometry')?.children[0])
    .filter(shape => shape?.tag === 'mesh')
}
