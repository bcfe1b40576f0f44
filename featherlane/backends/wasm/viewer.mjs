// The page: a robot that follows sliders, or falls, computed by the functions of its file.

const STEP = 1e-3  // s
const MOST = 50  // steps between two pictures: on slow machines time runs slower
const STIFFNESS = 100  // 1/s^2: accelerations that bring joints to their sliders
const DRAG = 0.3  // 1/s: how fast a robot that was let go comes to rest
const RATED = ['inverse_dynamics', 'mass_matrix', 'step']
// Servos of robots that stand: stiffness by m g and the height of the base, 1/rad; damping by
// stiffness, s, and at most this share of the inertia that a joint moves in a step
const SERVO = 1.8, SERVO_DAMPING = 0.04, LARGEST_DAMPING = 0.4
const GRAVITY = 9.81  // m/s^2
const UNITS = { rad: 'N m', m: 'N' }

const at = id => document.getElementById(id)
const data = JSON.parse(at('data').textContent)
let robot, fallback, rows = [], session = 0

// Opening a robot

function bytes(base64) {
  return Uint8Array.from(atob(base64), c => c.charCodeAt(0))
}

async function script(text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }))
  try {
    return await open(await import(url))
  } finally {
    URL.revokeObjectURL(url)
  }
}

function say(text, wrong = false) {
  at('status').textContent = text
  at('status').classList.toggle('wrong', wrong)
}

async function choose(shown) {
  if (shown.file) return dropped(shown.file)
  const began = performance.now()
  const scripted = shown.script ? await script(shown.script) : null
  const opened = supported() ? await open(bytes(shown.module)) : scripted
  const told = 'This browser has no vectors in WebAssembly'
  if (opened) show(opened, scripted, shown.stance)
  else say(`${told}, and ${shown.name} comes without a script.`, true)
  if (opened && !supported()) say(`${told}: plain JavaScript runs.`)
  return performance.now() - began
}

/** Opens a file: a module of `featherlane generate`, or a robot's URDF or MJCF, read here. */
async function dropped(file) {
  try {
    const bytes = new Uint8Array(await file.arrayBuffer()), began = performance.now()
    const isModule = [0, 97, 115, 109].every((x, n) => bytes[n] === x)  // "\0asm"
    if (!isModule && file.name.endsWith('.wasm')) throw new TypeError('it is no module')
    const opened = await open(isModule ? bytes : fromRobotFile(new TextDecoder().decode(bytes)))
    show(opened, null)
    select(file)
    const took = (performance.now() - began).toFixed(0)
    const { functions, coordinates, notes } = opened.about
    const joints = `${coordinates.length} ${coordinates.length === 1 ? 'joint' : 'joints'}`
    const left = notes?.length ? ` (${notes.join('; ')})` : ''
    say(isModule ? `${file.name}: ${Object.keys(functions).length} functions.${robot.told()}`
      : `${file.name}: ${joints} on a fixed root${left}, read in ${took} ms and computed `
      + 'by loops in plain JavaScript, thousands of states a second (below). Compiled, it is '
      + 'hundreds of times as fast: '
      + `featherlane generate ${file.name} --target wasm --output web`)
  } catch (error) {
    say(`${file.name} cannot be shown: ${error.message}`, true)
  }
}

/** Adds a dropped file to the menu of robots, and selects it. */
function select(file) {
  let n = data.findIndex(each => each.file?.name === file.name)
  if (n < 0) {
    n = data.push({ name: file.name }) - 1
    at('robots').append(new Option(file.name))
  }
  data[n].file = file
  at('robots').selectedIndex = n
}

/** Opens the robot among files that were dropped together, such as those of its meshes. */
function dropAll(files) {
  const file = files.find(({ name }) => /\.(urdf|xml|mjcf|wasm)$/i.test(name)) ?? files[0]
  if (file) dropped(file)
  else say('Nothing that was dropped is a file: wanted a URDF, MJCF or .wasm file.', true)
}

function show(opened, scripted, stance) {
  const { about } = opened
  for (const name of ['figure', ...RATED]) {
    if (!about.functions[name]) throw new TypeError(`it has no function ${name}`)
  }
  fallback = scripted
  touched = null
  robot = new Robot(opened, stance)
  rows = makeRows(about)
  view.fit()
  at('card').textContent = about.card
  say(robot.told().trim())
  measure()
}

// The robot: its state, its control, its motion

class Robot {
  constructor(made, stance) {
    this.made = made
    this.about = made.about
    for (const name of ['figure', ...RATED]) this[name] = made.batch(name)
    this.ghost = made.batch('figure')
    const placed = this.placed(this.about.neutral)
    this.faces = placed.rotations ? facesOnBodies(shapesOf(this.about, placed)) : []
    this.stance = stance?.length ? stance : this.about.stance
    this.floats = !this.stance && Boolean(this.about.velocities?.[0]?.endsWith(' vx'))
    this.target = Float64Array.from(this.stance ?? this.about.neutral)
    if (this.stance) this.servos = this.gains()
    else this.bend()
    this.start()
  }

  /** Bends the joints of the target a little, rad or m: arms show what they are. */
  bend() {
    const bend = this.about.coordinates.length > 8 ? 0.1 : 0.5
    for (const [n, c] of this.about.coordinates.entries()) {
      const x = this.target[c.q] + (n % 2 ? bend : -bend)
      this.target[c.q] = Math.min(c.upper, Math.max(c.lower, x))
    }
  }

  start() {
    this.q = Float64Array.from(this.stance ?? this.target)
    this.v = new Float64Array(this.about.nv)
    this.tau = new Float64Array(this.about.nv)
    this.step.inputs.impulse?.fill(0)
    this.trail = []
  }

  /** Makes the present pose the target, as far as limits allow. */
  keepPose() {
    for (const c of this.about.coordinates) {
      this.target[c.q] = Math.min(c.upper, Math.max(c.lower, this.q[c.q]))
    }
    for (const { c, slider } of rows) slider.value = this.target[c.q]
  }

  /** The torques of a controller: computed torque towards the sliders, or drag alone. */
  control(hold) {
    if (this.stance) return this.servo(hold)
    if (!hold) {
      const M = this.mass_matrix.outputs.M, n = this.about.nv
      for (let i = 0; i < n; i++) this.tau[i] = -DRAG * M[i * n + i] * this.v[i]
      return
    }
    const { inputs, outputs, run } = this.inverse_dynamics
    inputs.q.set(this.q)
    inputs.v.set(this.v)
    for (let i = 0; i < this.v.length; i++) inputs.a[i] = -2 * Math.sqrt(STIFFNESS) * this.v[i]
    for (const c of this.about.coordinates) {
      inputs.a[c.v] += STIFFNESS * (this.target[c.q] - this.q[c.q])
    }
    run()
    this.tau.set(outputs.tau)
  }

  /** Stiffness and damping of the servos of a robot that stands, by coordinate: [N m/rad,
   *  N m s/rad], or [N/m, N s/m] of sliding joints. */
  gains() {
    const { inputs, outputs, run } = this.mass_matrix, n = this.about.nv
    inputs.q.set(this.stance)
    run()
    const M = Float64Array.from(outputs.M), mass = M[0]
    const height = Math.max(this.stance[2] - (this.about.ground?.height ?? 0), 0.1)
    return this.about.coordinates.map(({ v, unit }) => {
      const one = new Float64Array(n)
      one[v] = 1
      const moved = 1 / solved(Float64Array.from(M), one)[v]
      const stiffness = SERVO * mass * GRAVITY * (unit === 'rad' ? height : 1 / height)
      const damping = Math.min(SERVO_DAMPING * stiffness, LARGEST_DAMPING * moved / STEP)
      return [stiffness, damping]
    })
  }

  /** The torques of servos on the joints of a robot that stands. */
  servo(hold) {
    for (const [n, { q, v }] of this.about.coordinates.entries()) {
      const [stiffness, damping] = this.servos[n]
      this.tau[v] = hold ? stiffness * (this.target[q] - this.q[q]) - damping * this.v[v] : 0
    }
  }

  advance(steps, hold) {
    for (let k = 0; k < steps; k++) {
      this.control(hold)
      const { inputs, outputs, run } = this.step
      inputs.q.set(this.q)
      inputs.v.set(this.v)
      inputs.tau.set(this.tau)
      inputs.dt[0] = STEP
      run()
      this.q.set(outputs.q_next)
      this.v.set(outputs.v_next)
      inputs.impulse?.set(outputs.impulse_next)
    }
    if (!this.v.every(Number.isFinite)) this.start()
    this.mass_matrix.inputs.q.set(this.q)
    this.mass_matrix.run()
  }

  push() {
    for (let i = 0; i < this.v.length; i++) this.v[i] += 2 * Math.random() - 1
  }

  /** How far a robot with a free root is from where it began, on the ground along it, m. */
  gone() {
    if (this.floats) return [...this.q.subarray(0, 3)]
    return this.stance ? [0, 1].map(i => this.q[i] - this.stance[i]).concat(0) : [0, 0, 0]
  }

  /** What a visitor would wonder about as a robot stands or falls. */
  told() {
    const { points, shapes, why } = this.about.ground ?? {}
    if (this.stance && points) {
      const which = shapes ? `${shapes[0]} of its ${shapes[1]}` : 'its'
      return ` Its step has the ground: ${points} contact points of ${which} collision shapes.`
    }
    return this.floats ? ` Its step has no ground${why ? ` (${why})` : ''}: let go, the robot `
      + 'falls, and the picture follows it.' : ''
  }

  /** The points of the figure at a configuration, and the rotations of bodies. */
  placed(q, figure = this.figure) {
    figure.inputs.q.set(q)
    figure.run()
    return figure.outputs
  }
}

// The rates

/** States a second, the best of slices of time between which the page lives on. */
async function rate(made, name, slices, mine) {
  const { inputs, states, run } = made.batch(name, 256)
  for (const x of Object.values(inputs)) x.forEach((_, n) => { x[n] = Math.sin(n) })
  for (let s = 0, n = robot.about.nq; inputs.q && s < states; s++) {
    inputs.q.set(robot.target, s * n)
    for (const c of robot.about.coordinates) inputs.q[s * n + c.q] += 0.1 * Math.sin(s)
  }
  inputs.dt?.fill(STEP)
  let best = 0
  for (let k = 0; k < slices && mine === session; k++) {
    await new Promise(resume => setTimeout(resume))
    const began = performance.now()
    let n = 0, now = began
    while (now - began < 12) {
      run()
      n += states
      now = performance.now()
    }
    best = Math.max(best, 1e3 * n / (now - began))
  }
  return best
}

const shown = x => x >= 1e6 ? `${(x / 1e6).toFixed(2)} million` : `${Math.round(x / 1e3)} thousand`

async function measure() {
  const mine = ++session, made = robot.made, body = at('rates')
  const compiled = supported() && !made.scripted, slow = compiled ? fallback : null
  at('loops').hidden = !made.about.notes
  delete document.body.dataset.measured
  body.replaceChildren(...RATED.map(name => {
    const row = document.createElement('tr')
    row.innerHTML = `<th>${name.replaceAll('_', ' ')}</th><td>…</td><td>${slow ? '…' : '–'}</td>`
    return row
  }))
  for (const [k, name] of RATED.entries()) {
    const [, fast, plain] = body.rows[k].cells
    const found = await rate(made, name, 20, mine)
    if (mine !== session) return
    if (compiled) fast.textContent = shown(found)
    else [fast.textContent, plain.textContent] = ['–', shown(found)]
    if (!slow) continue
    const plainly = await rate(slow, name, 40, mine)
    if (mine !== session) return
    plain.textContent = shown(plainly)
  }
  document.body.dataset.measured = 'yes'
}

// The page itself

const megabytes = bytes => `${(bytes / 1e6).toFixed(2)} MB`

/** The size of the page and the times to open it and its first robot, ms. */
function loadOf(visit, shown, opened, sinceVisit) {
  const { size } = at('load').dataset, bytes = visit?.transferSize ?? 0
  const sent = bytes && bytes < size ? `, ${megabytes(bytes)} sent` : ''  // what was compressed
  return `This page has ${megabytes(size)}${sent}, and was ready `
    + `${(sinceVisit / 1e3).toFixed(2)} s after it was asked for; ${shown.name}, `
    + `${megabytes(3 / 4 * shown.module.length)} of WebAssembly, was opened in ${opened.toFixed(0)} ms.`
}

// What visitors do

const holds = () => document.querySelector('[name=mode]:checked').value === 'hold'
at('push').addEventListener('click', () => robot.push())
at('reset').addEventListener('click', () => robot.start())
at('again').addEventListener('click', () => measure())
at('robots').append(...data.map(({ name }) => new Option(name)))
at('robots').addEventListener('change', event => choose(data[event.target.selectedIndex]))
at('file').addEventListener('change', event => {
  if (event.target.files[0]) dropped(event.target.files[0])
})
for (const [kind, over] of [['dragover', true], ['dragleave', false], ['drop', false]]) {
  addEventListener(kind, event => {
    event.preventDefault()
    document.body.classList.toggle('over', over)
    if (kind === 'drop') dropAll([...event.dataTransfer.files])
  })
}
at('figure').addEventListener('pointermove', event => {
  if (!event.buttons) return
  view.yaw -= event.movementX / 150
  view.pitch = Math.min(1.5, Math.max(-0.2, view.pitch + event.movementY / 150))
})
at('figure').addEventListener('keydown', event => {
  const turn = { ArrowLeft: 0.1, ArrowRight: -0.1 }[event.key]
  if (turn) view.yaw += turn
})
for (const kind of ['pointermove', 'pointerdown']) at('matrix').addEventListener(kind, touch)
at('matrix').addEventListener('keydown', moveTouched)
at('hold').addEventListener('change', () => robot.keepPose())

let before = 0
function frame(now) {
  const steps = Math.min(MOST, Math.round((now - before) / 1e3 / STEP))
  before = now
  if (robot) {
    robot.advance(steps, holds())
    tell()
    drawFigure()
    drawMatrix()
  }
  requestAnimationFrame(frame)
}

const ready = await choose(data[0]), [visit] = performance.getEntriesByType('navigation')
document.body.dataset.ready = ready.toFixed(1)  // ms
at('load').textContent = loadOf(visit, data[0], ready, performance.now())
requestAnimationFrame(frame)
