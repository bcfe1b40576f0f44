// The drawing of a robot: its lines and its collision shapes, the farthest first, on a canvas.

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

function surface(canvas) {
  const ratio = devicePixelRatio || 1, { clientWidth: w, clientHeight: h } = canvas
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio)
    canvas.height = Math.round(h * ratio)
  }
  const context = canvas.getContext('2d')
  context.setTransform(ratio, 0, 0, ratio, 0, 0)
  context.clearRect(0, 0, w, h)
  return { context, w, h }
}

const PITCH = 0.3  // rad, of the eye above the horizon

const view = {
  yaw: 0.7,
  pitch: PITCH,
  shift: [0, 0, 0],  // how far a robot with a free root has gone
  low: [0, 0, 0],
  high: [1, 1, 1],
  floor: 0,

  /** Looks at all that the figure reaches as one joint turns, or slides up to three times its size;
   *  what falls knows no limits. */
  fit() {
    const poses = [robot.target], turns = [Math.PI / 2, -Math.PI / 2, Math.PI]
    const most = 3 * sizeOf(robot.placed(robot.about.neutral).points)
    const slides = ({ lower, upper }) => [Math.max(lower, -most), Math.min(upper, most)]
    for (const c of robot.stance ? [] : robot.about.coordinates) {
      for (const x of c.unit === 'rad' ? turns : slides(c)) {
        const q = Float64Array.from(robot.about.neutral)
        q[c.q] = x
        poses.push(q)
      }
    }
    this.low = [0, 0, 0]
    this.high = [0, 0, 0]
    for (const q of poses) {
      const { points } = robot.placed(q)
      if (q === robot.target && !robot.stance) {
        this.floor = points.reduce((z, x, n) => n % 3 === 2 ? Math.min(z, x) : z, 0)
      }
      points.forEach((x, n) => {
        this.low[n % 3] = Math.min(this.low[n % 3], x)
        this.high[n % 3] = Math.max(this.high[n % 3], x)
      })
    }
    if (robot.stance) this.floor = robot.about.ground?.height ?? 0
  },

  /** Where a point of the world is on a canvas, and how far away. What is in the box fits, however
   *  it is turned about the vertical. */
  project(w, h) {
    const [dx, dy, dz] = this.low.map((x, i) => Math.max(0.1, this.high[i] - x))
    const across = Math.hypot(dx, dy)
    const middle = this.low.map((x, i) => (x + this.high[i]) / 2 + this.shift[i])
    const tall = Math.cos(PITCH) * dz + Math.sin(PITCH) * across
    const scale = (robot.stance ? 0.8 : 0.9) * Math.min(w / across, h / tall)
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch),
      Math.sin(this.pitch)]
    return (x, y, z) => {
      const [a, b, c] = [x - middle[0], y - middle[1], z - middle[2]]
      const right = cy * a + sy * b, near = cy * b - sy * a
      return [w / 2 + scale * right, h / 2 - scale * (cp * c - sp * near), -near * cp - c * sp]
    }
  },

  /** The direction from the robot to the eye. */
  eye() {
    const [cp, sp] = [Math.cos(this.pitch), Math.sin(this.pitch)]
    return [-Math.sin(this.yaw) * cp, Math.cos(this.yaw) * cp, sp]
  },
}

/** The length of the longest side of the box around points and the origin, m. */
function sizeOf(points) {
  const along = i => [0, ...points.filter((_, n) => n % 3 === i)]
  return Math.max(...[0, 1, 2].map(i => Math.max(...along(i)) - Math.min(...along(i))))
}

function line(context, from, to) {
  context.beginPath()
  context.moveTo(from[0], from[1])
  context.lineTo(to[0], to[1])
  context.stroke()
}

function ground(context, project) {
  const size = Math.max(...view.low.map((x, i) => view.high[i] - x)) || 1
  const cell = 10 ** Math.floor(Math.log10(size / 3)), n = Math.ceil(size / 3 / cell)
  const z = view.floor, [x, y] = view.shift.map(far => robot.stance ? Math.round(far / cell) : 0)
  context.strokeStyle = colour('--ground')
  context.lineWidth = 1
  const at = (i, j) => project((x + i) * cell, (y + j) * cell, z)
  for (let k = -n; k <= n; k++) {
    line(context, at(k, -n), at(k, n))
    line(context, at(-n, k), at(n, k))
  }
}

// The faces of shapes

const ROUND = 14  // corners of a circle
const circle = k => [Math.cos(2 * Math.PI * k / ROUND), Math.sin(2 * Math.PI * k / ROUND)]

/** Faces between rings of corners [radius, z], from the lowest to the highest. */
function turned(rings) {
  const corner = ([r, z], k) => [r * circle(k)[0], r * circle(k)[1], z]
  const sides = rings.slice(1).flatMap((ring, n) => Array.from({ length: ROUND }, (_, k) =>
    [corner(rings[n], k), corner(rings[n], k + 1), corner(ring, k + 1), corner(ring, k)]))
  const ends = [rings[0], rings.at(-1)].map((ring, n) =>
    Array.from({ length: ROUND }, (_, k) => corner(ring, n ? k : -k)))
  return [...sides, ...ends.filter((_, n) => (n ? rings.at(-1) : rings[0])[0])]
}

function ball(r, half) {
  const angles = Array.from({ length: 7 }, (_, k) => Math.PI * (k / 6 - 0.5))
  const rings = angles.map(x => [r * Math.cos(x), r * Math.sin(x) + (x < 0 ? -half : half)])
  return turned(half ? [...rings.slice(0, 3), [r, -half], [r, half], ...rings.slice(4)] : rings)
}

function boxFaces(x, y, z) {
  const axes = [[0, 1, 2], [1, 2, 0], [2, 0, 1]], sizes = [x, y, z]
  const square = [[1, 1], [-1, 1], [-1, -1], [1, -1]]
  return axes.flatMap(([n, a, b]) => [1, -1].map(sign => square.map(([i, j]) => {
    const corner = [0, 0, 0]
    corner[n] = sign * sizes[n]
    corner[a] = sign * i * sizes[a]
    corner[b] = j * sizes[b]
    return corner
  })))
}

/** The faces of a shape in its own frame, with corners that turn left as seen from outside. */
function facesOf({ kind, size }) {
  const [a, b, c] = size
  if (kind === 'box') return boxFaces(a, b, c)
  if (kind === 'cylinder') return turned([[a, -b], [a, b]])
  if (kind === 'ellipsoid') {
    return ball(1, 0).map(face => face.map(([x, y, z]) => [a * x, b * y, c * z]))
  }
  return ball(a, kind === 'capsule' ? b : 0)
}

/** The faces of all shapes of a robot in the frames of their bodies, with normals. */
function facesOnBodies(shapes) {
  return shapes.flatMap(shape => facesOf(shape).map(face => {
    const corners = face.map(x => plus(times(shape.R, x), shape.p))
    const normal = cross(plus(corners[1], corners[0], -1), plus(corners[2], corners[1], -1))
    const length = Math.hypot(...normal) || 1
    return { body: shape.body, corners, normal: normal.map(x => x / length) }
  }))
}

// The shapes of robots without any but feet: capsules and boxes from their kinematics

const THICK = 0.045, SHORT = 0.02  // radius of a capsule and least length, parts of the robot's size

/** A capsule or a box for each body, between its joint and those that it carries. */
function shapesOfLines(lines, { points, rotations }) {
  const point = n => n < 0 ? [0, 0, 0] : [...points.subarray(3 * n, 3 * n + 3)]
  const size = sizeOf(points)
  const ends = new Map()
  for (const [a, b] of lines) {
    const R = rotations.subarray(9 * a, 9 * a + 9), x = plus(point(b), point(a), -1)
    const end = a < 0 ? x : [0, 1, 2].map(i => dot([R[i], R[i + 3], R[i + 6]], x))
    if (Math.hypot(...end) > SHORT * size) ends.set(a, [...ends.get(a) ?? [], end])
  }
  return [...ends].map(([body, all]) =>
    ({ body, ...all.length > 1 ? boxAround(all, THICK * size) : boneTo(all[0], THICK * size) }))
}

/** A capsule from the origin to a point, thinner than its length. */
function boneTo(end, thick) {
  const length = Math.hypot(...end), z = end.map(x => x / length)
  const side = cross(Math.abs(z[2]) < 0.9 ? [0, 0, 1] : [1, 0, 0], z), norm = Math.hypot(...side)
  const x = side.map(value => value / norm), y = cross(z, x)
  const R = [0, 1, 2].flatMap(i => [x[i], y[i], z[i]]), r = Math.min(thick, 0.3 * length)
  return { kind: 'capsule', size: [r, length / 2 - r / 2], R, p: end.map(value => value / 2) }
}

/** A box around the origin and points. */
function boxAround(ends, thick) {
  const [low, high] = [Math.min, Math.max].map(most =>
    [0, 1, 2].map(i => most(0, ...ends.map(x => x[i]))))
  const size = low.map((x, i) => Math.max((high[i] - x) / 2, thick))
  return { kind: 'box', size, R: [1, 0, 0, 0, 1, 0, 0, 0, 1], p: plus(low, high).map(x => x / 2) }
}

/** Whether no shape of a robot's file is on a body, or only spheres, as of a foot. */
const isBare = (shapes, body) => shapes.every(each => each.body !== body || each.kind === 'sphere')

/** The shapes of a robot's file, and those of the lines of bodies without any. */
function shapesOf({ shapes = [], lines }, placed) {
  return [...shapes, ...shapesOfLines(lines.filter(([a]) => isBare(shapes, a)), placed)]
}

/** Faces that the eye sees: {depth, draw}. */
function seenFaces(faces, { points, rotations }, project, shades) {
  const eye = view.eye(), light = [0.3, 0.4, 0.87], still = [1, 0, 0, 0, 1, 0, 0, 0, 1]
  return faces.flatMap(({ body, corners, normal }) => {
    const R = body < 0 ? still : rotations.subarray(9 * body, 9 * body + 9)
    const p = body < 0 ? [0, 0, 0] : points.subarray(3 * body, 3 * body + 3)
    const n = times(R, normal)
    if (dot(n, eye) <= 0) return []
    const seen = corners.map(x => project(...plus(times(R, x), p)))
    const depth = seen.reduce((sum, x) => sum + x[2], 0) / seen.length
    const shade = shades[Math.round((shades.length - 1) * (0.5 + 0.5 * dot(n, light)))]
    return [{ depth, draw: context => polygon(context, seen, shade) }]
  })
}

function polygon(context, corners, shade) {
  context.beginPath()
  for (const x of corners) context.lineTo(x[0], x[1])
  context.closePath()
  context.lineWidth = 0.7
  context.fillStyle = context.strokeStyle = shade
  context.fill()
  context.stroke()
}

/** Lines of the figure, each with a joint at its end: {depth, draw}. */
function seenLines(lines, { points }, project, stroke, width) {
  const place = n => n < 0 ? project(0, 0, 0) : project(...points.subarray(3 * n, 3 * n + 3))
  const shown = lines.filter(([a]) => a >= 0 || !(robot.stance || robot.floats))
  return shown.map(([a, b]) => {
    const from = place(a), to = place(b)
    const draw = context => {
      context.lineCap = 'round'
      context.strokeStyle = context.fillStyle = stroke
      context.lineWidth = width
      line(context, from, to)
      context.beginPath()
      context.arc(to[0], to[1], 0.8 * width, 0, 7)
      context.fill()
    }
    return { depth: (from[2] + to[2]) / 2, draw }
  })
}

function drawAll(context, parts) {
  parts.sort((x, y) => y.depth - x.depth)
  for (const part of parts) part.draw(context)
}

function drawFigure() {
  const { context, w, h } = surface(at('figure'))
  view.shift = robot.gone()
  const project = view.project(w, h)
  ground(context, project)
  const { lines, shapes = [] } = robot.about, thin = lines.length > 15 || robot.faces.length
  const uncovered = robot.faces.length ? lines.filter(([a]) => !isBare(shapes, a)) : lines
  if (holds() && !robot.stance) {
    const ghost = robot.placed(robot.target, robot.ghost)
    drawAll(context, seenLines(lines, ghost, project, colour('--line'), thin ? 3 : 5))
  }
  const placed = robot.placed(robot.q), last = placed.points.slice(-3)
  drawTrail(context, last, project)
  const shades = Array.from({ length: 24 }, (_, k) => `color-mix(in srgb, ${colour('--lit')} `
    + `${Math.round(100 * k / 23)}%, ${colour('--shaded')})`)
  drawAll(context, [
    ...seenLines(uncovered, placed, project, colour('--accent'), thin ? 3.5 : 7),
    ...seenFaces(robot.faces, placed, project, shades),
  ])
}

function drawTrail(context, last, project) {
  robot.trail.push(last)
  if (robot.trail.length > 240) robot.trail.shift()
  context.strokeStyle = `rgb(${colour('--negative')})`
  context.lineWidth = 1.5
  context.beginPath()
  for (const p of robot.trail) context.lineTo(...project(...p).slice(0, 2))
  context.stroke()
}
