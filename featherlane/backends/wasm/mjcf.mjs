// MJCF: the part of it that needs no compiler. Bodies, hinges and slides with classes of defaults,
// inertia given or of primitive geoms; a free base is held. Anything else that moves is refused.

const REFUSED = ['include', 'replicate', 'composite', 'flexcomp', 'attach', 'frame', 'flex']
const UNREAD = ['tendon', 'equality', 'actuator', 'sensor', 'keyframe', 'contact']
const GEOM_SIZES = { sphere: 1, capsule: 2, cylinder: 2, box: 3, ellipsoid: 3 }

function mjcfRobot(root) {
  refuseIn(root)
  const option = childOf(root, 'option'), settings = childOf(root, 'compiler')?.attributes ?? {}
  const robot = emptyRobot(root.attributes.model ?? 'robot',
    numbersOf(option, 'gravity', [0, 0, -9.81]))
  if (settings.coordinate === 'global' || settings.settotalmass) {
    throw new Error(refusal('a file with coordinate="global" or settotalmass'))
  }
  const file = {
    robot,
    angle: settings.angle === 'radian' ? 1 : Math.PI / 180,
    eulerseq: settings.eulerseq ?? 'xyz',
    fromGeoms: settings.inertiafromgeom ?? 'auto',
    classes: new Map([['main', {}]]),
  }
  for (const element of childrenOf(root, 'default')) readClass(file, element, {}, 'main')
  for (const world of childrenOf(root, 'worldbody')) {
    addGeoms(file, world, -1, 'main')
    for (const body of childrenOf(world, 'body')) addMjcfBody(file, body, -1, 'main', true)
  }
  const unread = UNREAD.filter(tag => childOf(root, tag)?.children.length)
  if (unread.length) robot.notes.push(`not read: ${unread.join(', ')}`)
  return robot
}

function refuseIn(element) {
  if (REFUSED.includes(element.tag)) throw fault(element, refusal(`<${element.tag}>`))
  element.children.forEach(refuseIn)
}

/** Attributes of joints and geoms by class; a class has those of the class around it. */
function readClass(file, element, outer, fallback) {
  const own = { ...outer }
  for (const { tag, attributes } of element.children) {
    if (tag !== 'default') own[tag] = { ...own[tag], ...attributes }
  }
  file.classes.set(element.attributes.class ?? fallback, own)
  for (const inner of childrenOf(element, 'default')) readClass(file, inner, own, '')
}

function withDefaults(file, element, childclass) {
  const name = element.attributes.class ?? childclass, defaults = file.classes.get(name)
  if (!defaults) throw fault(element, `its class '${name}' is not defined`)
  return { ...element, attributes: { ...defaults[element.tag], ...element.attributes } }
}

// Bodies and joints

function addMjcfBody(file, element, parent, outerClass, onWorld) {
  const { robot } = file, childclass = element.attributes.childclass ?? outerClass
  const place = mjcfPlace(file, element), name = element.attributes.name ?? `body${parent + 1}`
  if (isFree(element) && !onWorld) throw fault(element, refusal('a free joint inside a tree'))
  let at = robot.bodies.push({ ...emptyBody(name, parent), ...place }) - 1, shift = [0, 0, 0]
  for (const plain of childrenOf(element, 'joint')) {
    const joint = withDefaults(file, plain, childclass), type = joint.attributes.type ?? 'hinge'
    if (type === 'free' && onWorld) continue
    if (type !== 'hinge' && type !== 'slide') throw fault(joint, refusal(`a ${type} joint`))
    const anchor = type === 'hinge' ? numbersOf(joint, 'pos', [0, 0, 0]) : shift
    at = robot.bodies.push(mjcfJoint(file, joint, type, at, plus(anchor, shift, -1))) - 1
    shift = anchor
    const range = mjcfRange(joint, type === 'hinge' ? file.angle : 1)
    addCoordinate(robot, at, joint.attributes.name ?? `joint${robot.coordinates.length}`, ...range)
  }
  if (onWorld && isFree(element)) {
    robot.held = true
    robot.notes.push(`${name} is free in the file: here it is held where it is`)
  }
  const carried = { ...emptyBody(name, at), p: scaled(-1, shift) }
  const body = robot.bodies.push(carried) - 1
  const geoms = addGeoms(file, element, body, childclass)
  setMjcfInertia(file, element, carried, geoms)
  for (const child of childrenOf(element, 'body')) {
    addMjcfBody(file, child, body, childclass, false)
  }
}

const isFree = element => childOf(element, 'freejoint')
  || childrenOf(element, 'joint').some(joint => joint.attributes.type === 'free')

function mjcfJoint(file, joint, type, parent, p) {
  const scale = type === 'hinge' ? file.angle : 1, axis = numbersOf(joint, 'axis', [0, 0, 1])
  const body = emptyBody(joint.attributes.name ?? '', parent)
  const reference = scale * numberOf(joint, 'ref', 0)
  return Object.assign(body, {
    p,
    kind: type === 'hinge' ? 'revolute' : 'prismatic',
    axis: unit(axis, joint),
    offset: -reference,
    armature: numberOf(joint, 'armature', 0),
    friction: numberOf(joint, 'frictionloss', 0),
    damping: numbersOf(joint, 'damping', [0], 0)[0],
    stiffness: numbersOf(joint, 'stiffness', [0], 0)[0],
    reference: scale * numberOf(joint, 'springref', 0) - reference,
  })
}

function mjcfRange(joint, scale) {
  if (joint.attributes.limited === 'false' || !joint.attributes.range) return [0, 0]
  return numbersOf(joint, 'range', undefined, 2).map(x => scale * x)
}

/** The placement of an element by pos and quat, axisangle, euler, xyaxes or zaxis. */
function mjcfPlace(file, element) {
  const p = numbersOf(element, 'pos', [0, 0, 0])
  return { R: mjcfRotation(file, element), p }
}

function mjcfRotation(file, element) {
  const has = name => element.attributes[name] !== undefined
  if (has('axisangle')) {
    const [x, y, z, angle] = numbersOf(element, 'axisangle', undefined, 4)
    return turn(unit([x, y, z], element), file.angle * angle)
  }
  if (has('euler')) return eulerRotation(file, numbersOf(element, 'euler', undefined, 3))
  if (has('xyaxes')) {
    const numbers = numbersOf(element, 'xyaxes', undefined, 6), second = numbers.slice(3)
    const x = unit(numbers.slice(0, 3), element)
    const y = unit(plus(second, x, -dot(second, x)), element)
    return transposed([...x, ...y, ...cross(x, y)])
  }
  if (has('zaxis')) return towards(unit(numbersOf(element, 'zaxis', undefined, 3), element))
  return quaternionRotation(numbersOf(element, 'quat', [1, 0, 0, 0]))
}

function eulerRotation({ eulerseq, angle }, numbers) {
  return numbers.reduce((R, x, n) => {
    const letter = eulerseq[n], axis = [0, 1, 2].map(k => Number('xyz'[k] === letter.toLowerCase()))
    const next = turn(axis, angle * x)
    return letter === letter.toLowerCase() ? product(R, next) : product(next, R)
  }, [1, 0, 0, 0, 1, 0, 0, 0, 1])
}

function quaternionRotation(numbers) {
  const length = Math.hypot(...numbers), [w, ...u] = numbers.map(x => x / length)
  const sine = Math.hypot(...u)
  return sine ? turn(u.map(x => x / sine), 2 * Math.atan2(sine, w)) : turn([0, 0, 1], 0)
}

/** The shortest rotation that takes z to a unit vector. */
function towards(z) {
  const axis = cross([0, 0, 1], z), sine = Math.hypot(...axis)
  if (!sine) return turn([1, 0, 0], z[2] < 0 ? Math.PI : 0)
  return turn(axis.map(x => x / sine), Math.atan2(sine, z[2]))
}

// Geoms and inertia

function addGeoms(file, element, body, childclass) {
  return childrenOf(element, 'geom').map(plain => {
    const geom = withDefaults(file, plain, childclass), { attributes } = geom
    const kind = attributes.mesh ? 'mesh' : attributes.type ?? 'sphere'
    const made = { geom, kind }
    if (GEOM_SIZES[kind]) Object.assign(made, geomShape(file, geom, kind))
    if (made.size && (attributes.contype !== '0' || attributes.conaffinity !== '0')) {
      file.robot.shapes.push({ body, kind, size: made.size, R: made.R, p: made.p })
    }
    return made
  })
}

function geomShape(file, geom, kind) {
  const size = numbersOf(geom, 'size', undefined, 0)
  if (!geom.attributes.fromto) {
    return { size: size.slice(0, GEOM_SIZES[kind]), ...mjcfPlace(file, geom) }
  }
  const ends = numbersOf(geom, 'fromto', undefined, 6), [a, b] = [ends.slice(0, 3), ends.slice(3)]
  const along = plus(b, a, -1), half = Math.hypot(...along) / 2
  const lengths = GEOM_SIZES[kind] === 2 ? [size[0], half] : [size[0], size[0], half]
  const z = scaled(-1, unit(along, geom))  // MuJoCo's z looks from `to` to `from`
  return { size: lengths, R: towards(z), p: plus(a, along, 0.5) }
}

function setMjcfInertia(file, element, body, geoms) {
  const inertial = childOf(element, 'inertial')
  const fromGeoms = file.fromGeoms === 'true' || (file.fromGeoms === 'auto' && !inertial)
  if (fromGeoms) return geoms.forEach(geom => addGeomMass(body, geom))
  if (!inertial) return
  const { R, p } = mjcfPlace(file, inertial), full = inertial.attributes.fullinertia !== undefined
  const [xx, yy, zz, xy = 0, xz = 0, yz = 0] =
    numbersOf(inertial, full ? 'fullinertia' : 'diaginertia', full ? undefined : [0, 0, 0])
  body.mass = numberOf(inertial, 'mass')
  body.com = p
  body.inertia = inAxes(R, [xx, xy, xz, xy, yy, yz, xz, yz, zz])
}

/** Adds the mass of a geom to a body, whose centre of mass moves. */
function addGeomMass(body, { geom, kind, size, R, p }) {
  if (kind === 'plane' || kind === 'hfield') return
  const mass = numberOf(geom, 'mass', NaN), density = numberOf(geom, 'density', 1000)
  if (mass === 0 || (Number.isNaN(mass) && density === 0)) return
  if (!size) throw fault(geom, `its body has no <inertial>, and ${refusal('the mass of a mesh')}`)
  const [volume, moments] = solid(kind, size), m = Number.isNaN(mass) ? density * volume : mass
  const [x, y, z] = moments.map(each => m * each)
  const I = inAxes(R, [x, 0, 0, 0, y, 0, 0, 0, z])
  const total = body.mass + m, d = plus(p, body.com, -1), shared = body.mass * m / total
  body.inertia = sumOf(sumOf(body.inertia, I), ofPoint(shared, d))
  body.com = plus(body.com, d, m / total)
  body.mass = total
}

/** The volume of a solid, and its moments of inertia over its mass. */
function solid(kind, [a, b, c]) {
  if (kind === 'sphere') return [4 / 3 * Math.PI * a ** 3, Array(3).fill(2 / 5 * a * a)]
  if (kind === 'box') {
    return [8 * a * b * c, [b * b + c * c, a * a + c * c, a * a + b * b].map(x => x / 3)]
  }
  if (kind === 'ellipsoid') {
    const moments = [b * b + c * c, a * a + c * c, a * a + b * b].map(x => x / 5)
    return [4 / 3 * Math.PI * a * b * c, moments]
  }
  const cylinder = 2 * Math.PI * a * a * b, across = a * a / 4 + b * b / 3
  if (kind === 'cylinder') return [cylinder, [across, across, a * a / 2]]
  const caps = 4 / 3 * Math.PI * a ** 3, volume = cylinder + caps
  const capAcross = 2 / 5 * a * a + b * b + 3 / 4 * a * b
  const [x, z] = [cylinder * across + caps * capAcross, cylinder * a * a / 2 + caps * 2 / 5 * a * a]
  return [volume, [x / volume, x / volume, z / volume]]
}

// Either format

/** What `open` takes, of the text of a robot file. */
function fromRobotFile(text) {
  const root = parseXml(text)
  if (root.tag === 'robot') return computed(movable(urdfRobot(root)))
  if (root.tag === 'mujoco') return computed(movable(mjcfRobot(root)))
  throw new Error(`it starts with <${root.tag}>; wanted <robot> of URDF or <mujoco> of MJCF`)
}

/** A robot as it came. Throws Error where no joint moves, or one moves no mass. */
function movable(robot) {
  const { coordinates } = robot, n = coordinates.length
  if (!n) throw new Error('no joint of it moves')
  const q = new Float64Array(n), factor = massMatrix(robot, q)
  solved(factor, q)
  const massless = coordinates.find((_, k) => !(factor[k * n + k] > 0))
  if (massless) throw new Error(`joint '${massless.name}' moves no mass: wanted <inertial> there`)
  return robot
}
