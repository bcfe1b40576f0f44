// Robots of dropped files, computed by loops over bodies in plain JavaScript (Featherstone 2008,
// tables 5.1 and 6.2, in the world's axes): a script as `open` takes it, without a compiler.
//
// A robot: {name, gravity, bodies, coordinates, shapes, notes, held}; `held` is true if its base is
// free in the file. A body: its parent, the placement R (row by row), p of its joint on it, mass,
// centre of mass, inertia about that in its own axes, and its joint: kind, axis, coordinate (or
// -1), whose value is multiplied and offset.

const SLOW = 0.01  // rad/s or m/s
const SHORTEST = 1e-3  // m: a body that ends nearer to its joint has no line to its end

const refusal = what => `the page cannot move ${what}; featherlane generate takes the robot`

const emptyRobot = (name, gravity) =>
  ({ name, gravity, bodies: [], coordinates: [], shapes: [], notes: [], held: false })

const emptyBody = (name, parent) => ({
  name, parent, R: [1, 0, 0, 0, 1, 0, 0, 0, 1], p: [0, 0, 0], kind: 'fixed', axis: [0, 0, 1],
  coordinate: -1, multiplier: 1, offset: 0, mass: 0, com: [0, 0, 0],
  inertia: [0, 0, 0, 0, 0, 0, 0, 0, 0], armature: 0, damping: 0,
  friction: 0, stiffness: 0, reference: 0,
})

/** Gives the joint of a body a coordinate with a slider; limits of 0 and 0 are none. */
function addCoordinate(robot, n, name, lower = 0, upper = 0) {
  const body = robot.bodies[n], turns = body.kind === 'revolute'
  if (body.kind === 'fixed') return
  const end = turns ? Math.PI : 1, [low, high] = lower < upper ? [lower, upper] : [-end, end]
  const q = body.coordinate = robot.coordinates.length
  robot.coordinates.push({ name, unit: turns ? 'rad' : 'm', q, v: q, lower: low, upper: high })
}

// Vectors of three numbers, matrices row by row

const cross = ([a, b, c], [x, y, z]) => [b * z - c * y, c * x - a * z, a * y - b * x]
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
const plus = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]]
const scaled = (s, a) => [s * a[0], s * a[1], s * a[2]]
const times = (R, [x, y, z]) => [R[0] * x + R[1] * y + R[2] * z, R[3] * x + R[4] * y + R[5] * z,
  R[6] * x + R[7] * y + R[8] * z]
const transposed = R => [R[0], R[3], R[6], R[1], R[4], R[7], R[2], R[5], R[8]]

function product(A, B) {
  const columns = transposed(B), row = i => times(columns, [A[i], A[i + 1], A[i + 2]])
  return [...row(0), ...row(3), ...row(6)]
}

/** A symmetric matrix in turned axes, R I R^T. */
const inAxes = (R, I) => product(product(R, I), transposed(R))

/** m (d.d E - d d^T): the inertia of a mass at d. */
function ofPoint(m, [x, y, z]) {
  const [xy, xz, yz] = [-m * x * y, -m * x * z, -m * y * z]
  return [m * (y * y + z * z), xy, xz, xy, m * (x * x + z * z), yz, xz, yz, m * (x * x + y * y)]
}

const sumOf = (A, B) => A.map((x, k) => x + B[k])

function unit(axis, element) {
  const length = Math.hypot(...axis)
  if (!length) throw fault(element, 'its axis is zero; wanted a direction')
  return scaled(1 / length, axis)
}

/** The rotation about a unit vector. */
function turn([x, y, z], angle) {
  const c = Math.cos(angle), s = Math.sin(angle), d = 1 - c
  return [c + d * x * x, d * x * y - s * z, d * x * z + s * y,
    d * x * y + s * z, c + d * y * y, d * y * z - s * x,
    d * x * z - s * y, d * y * z + s * x, c + d * z * z]
}

// Motions [angular, linear at the world's origin] and inertias {m, h, I} about that origin

const crossMotion = ([w, v], [x, y]) => [cross(w, x), plus(cross(w, y), cross(v, x))]
const crossForce = ([w, v], [n, f]) => [plus(cross(w, n), cross(v, f)), cross(w, f)]
const added = ([a, b], [x, y], scale = 1) => [plus(a, x, scale), plus(b, y, scale)]
const power = ([a, b], [x, y]) => dot(a, x) + dot(b, y)
const applied = ({ m, h, I }, [w, v]) =>
  [plus(times(I, w), cross(h, v)), plus(scaled(m, v), cross(h, w), -1)]

function worldInertia({ mass, com, inertia }, R, p) {
  const c = plus(times(R, com), p)
  return { m: mass, h: scaled(mass, c), I: sumOf(inAxes(R, inertia), ofPoint(mass, c)) }
}

/** Where bodies are at q: {R, p, S, I}, S the motion of a joint that moves at 1 rad/s or m/s. */
function placed({ bodies }, q) {
  const places = []
  for (const body of bodies) {
    const { kind, axis, coordinate, multiplier, offset } = body
    const base = places[body.parent] ?? { R: [1, 0, 0, 0, 1, 0, 0, 0, 1], p: [0, 0, 0] }
    const x = coordinate < 0 ? offset : multiplier * q[coordinate] + offset
    let R = product(base.R, body.R), p = plus(times(base.R, body.p), base.p)
    const z = scaled(multiplier, times(R, axis))
    if (kind === 'prismatic') p = plus(p, times(R, axis), x)
    if (kind === 'revolute') R = product(R, turn(axis, x))
    const S = kind === 'prismatic' ? [[0, 0, 0], z] : [z, cross(p, z)]
    places.push({ R, p, S, I: worldInertia(body, R, p) })
  }
  return places
}

/** The torques of accelerations a, by the recursive Newton-Euler algorithm. */
function torques(robot, q, v, a, places = placed(robot, q)) {
  const { bodies, gravity } = robot, motions = [], forces = []
  const rest = { v: [[0, 0, 0], [0, 0, 0]], a: [[0, 0, 0], scaled(-1, gravity)] }
  const tau = new Float64Array(robot.coordinates.length)
  bodies.forEach(({ parent, coordinate: k }, n) => {
    const { S, I } = places[n], base = motions[parent] ?? rest
    const motion = { ...base }
    if (k >= 0) {
      motion.v = added(base.v, S, v[k])
      motion.a = added(added(base.a, S, a[k]), crossMotion(motion.v, S), v[k])
    }
    motions.push(motion)
    forces.push(added(applied(I, motion.a), crossForce(motion.v, applied(I, motion.v))))
  })
  for (let n = bodies.length - 1; n >= 0; n--) {
    const { parent, coordinate: k } = bodies[n]
    if (k >= 0) tau[k] += power(places[n].S, forces[n]) + ownTorque(bodies[n], q[k], v[k], a[k])
    if (parent >= 0) forces[parent] = added(forces[parent], forces[n])
  }
  return tau
}

/** The torque of a joint's armature, spring, damping and friction. */
function ownTorque(body, q, v, a) {
  const { multiplier: m, offset, armature, stiffness, reference } = body
  const spring = m * stiffness * (m * q + offset - reference)
  return m * m * armature * a + spring + resistance(body, v) * v
}

/** R(v), by which damping and friction, smoothed below SLOW, resist with R(v) v. */
function resistance({ multiplier, damping, friction }, v) {
  const m = Math.abs(multiplier)
  return m * m * damping + (friction ? m * friction / Math.hypot(v, SLOW / m) : 0)
}

/** The mass matrix, row by row, by the composite-rigid-body algorithm. */
function massMatrix(robot, q, places = placed(robot, q)) {
  const { bodies } = robot, nv = robot.coordinates.length
  const M = new Float64Array(nv * nv), sums = places.map(place => place.I)
  for (let n = bodies.length - 1; n >= 0; n--) {
    const { parent, coordinate: k, multiplier, armature } = bodies[n], { m, h, I } = sums[n]
    if (parent >= 0) {
      const base = sums[parent]
      sums[parent] = { m: base.m + m, h: plus(base.h, h), I: sumOf(base.I, I) }
    }
    if (k < 0) continue
    const force = applied(sums[n], places[n].S)
    M[k * nv + k] += power(places[n].S, force) + multiplier * multiplier * armature
    for (let i = parent; i >= 0; i = bodies[i].parent) {
      const j = bodies[i].coordinate
      if (j < 0) continue
      const x = power(places[i].S, force)
      M[k * nv + j] += x
      M[j * nv + k] += x
    }
  }
  return M
}

/** x of M x = b for a positive definite M, by its Cholesky factor, which takes the place of M. */
function solved(M, b) {
  const n = b.length, x = Float64Array.from(b)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = M[i * n + j]
      for (let k = 0; k < j; k++) sum -= M[i * n + k] * M[j * n + k]
      M[i * n + j] = i === j ? Math.sqrt(sum) : sum / M[j * n + j]
    }
    for (let k = 0; k < i; k++) x[i] -= M[i * n + k] * x[k]
    x[i] /= M[i * n + i]
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) x[i] -= M[k * n + i] * x[k]
    x[i] /= M[i * n + i]
  }
  return x
}

/** The next state, with the new velocity for the position; resistance is that of the step's end. */
function stepped(robot, q, v, tau, dt) {
  const places = placed(robot, q), M = massMatrix(robot, q, places)
  const bias = torques(robot, q, v, new Float64Array(v.length), places)
  for (const body of robot.bodies) {
    const k = body.coordinate
    if (k >= 0) M[k * (v.length + 1)] += dt * resistance(body, v[k])
  }
  const a = solved(M, tau.map((x, k) => x - bias[k]))
  const next = v.map((x, k) => x + dt * a[k])
  return [...q.map((x, k) => x + dt * next[k]), ...next]
}

/** The ends of bodies that carry no others, [body, end]: the shape that is farthest out, or the
 *  centre of mass. */
function tipsOf({ bodies, shapes }) {
  const carrying = new Set(bodies.map(body => body.parent))
  return bodies.flatMap(({ com }, k) => {
    const places = [com, ...shapes.filter(({ body }) => body === k).map(({ p }) => p)]
    const end = places.reduce((a, b) => Math.hypot(...b) > Math.hypot(...a) ? b : a)
    return carrying.has(k) || Math.hypot(...end) < SHORTEST ? [] : [[k, end]]
  })
}

/** Lines between joints, and to tips. A base that is held in the air has none to the ground. */
function linesOf({ bodies, held }, tips) {
  const joints = bodies.map((body, k) => [body.parent, k]).filter(([a]) => a >= 0 || !held)
  return [...joints, ...tips.map(([k], i) => [k, bodies.length + i])]
}

/** The functions that the page calls, as a script that `open` takes. */
function computed(robot) {
  const n = robot.coordinates.length, bodies = robot.bodies.length, q = [n], tips = tipsOf(robot)
  const functions = {
    inverse_dynamics: [{ q, v: q, a: q }, { tau: q }, (x, v, a) => torques(robot, x, v, a)],
    mass_matrix: [{ q }, { M: [n, n] }, x => massMatrix(robot, x)],
    step: [{ q, v: q, tau: q, dt: [] }, { q_next: q, v_next: q },
      (x, v, tau, [dt]) => stepped(robot, x, v, tau, dt)],
    figure: [{ q }, { points: [bodies + tips.length, 3], rotations: [bodies, 3, 3] }, x => {
      const places = placed(robot, x)
      const ends = tips.flatMap(([k, end]) => plus(places[k].p, times(places[k].R, end)))
      return [...places.flatMap(place => place.p), ...ends, ...places.flatMap(place => place.R)]
    }],
  }
  const described = Object.entries(functions).map(([name, [inputs, outputs]]) =>
    [name, { inputs, outputs, meanings: {} }])
  const scripts = Object.entries(functions).map(([name, [inputs, outputs, run]]) => {
    const sizes = Object.values(inputs).map(count)
    const places = sizes.reduce((sum, x) => sum + x, 0)
    const results = Object.values(outputs).reduce((sum, shape) => sum + count(shape), 0)
    const script = m => {
      let at = 0
      m.set(run(...sizes.map(size => m.slice(at, at += size))), places)
    }
    return [name, { run: script, places: places + results }]
  })
  return {
    about: {
      name: robot.name, nq: n, nv: n, dtype: 'float64', neutral: new Array(n).fill(0),
      lines: linesOf(robot, tips), shapes: robot.shapes, held: robot.held,
      coordinates: robot.coordinates, velocities: robot.coordinates.map(c => c.name),
      notes: robot.notes, card: cardOf(robot), functions: Object.fromEntries(described),
    },
    functions: Object.fromEntries(scripts),
  }
}

function cardOf({ name, bodies, coordinates, shapes, notes }) {
  const mass = bodies.reduce((sum, body) => sum + body.mass, 0)
  return [`${name}: ${coordinates.length} degrees of freedom, ${bodies.length} links, `
    + `${mass.toPrecision(4)} kg, ${shapes.length} collision shapes`, ...notes].join('\n')
}
