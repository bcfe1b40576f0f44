// The page: a robot that follows sliders, or falls, computed by the functions of its file.

const STEP = 1e-3  // s
const MOST = 50  // steps between two pictures: on slow machines time runs slower
const STIFFNESS = 100  // 1/s^2: accelerations that bring joints to their sliders
const DRAG = 0.3  // 1/s: how fast a robot that was let go comes to rest
const RATED = ['inverse_dynamics', 'mass_matrix', 'step']
const UNITS = { rad: 'N m', m: 'N' }

const at = id => document.getElementById(id)
const data = JSON.parse(at('data').textContent)
let robot, fallback, session = 0

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
  const began = performance.now()
  const scripted = shown.script ? await script(shown.script) : null
  const opened = supported() ? await open(bytes(shown.module)) : scripted
  const told = 'This browser has no vectors in WebAssembly'
  if (opened) show(opened, scripted)
  else say(`${told}, and ${shown.name} comes without a script.`, true)
  if (opened && !supported()) say(`${told}: plain JavaScript runs.`)
  return performance.now() - began
}

async function dropped(file) {
  try {
    const opened = await open(new Uint8Array(await file.arrayBuffer()))
    show(opened, null)
    at('robots').selectedIndex = -1
    say(`${file.name}: ${Object.keys(opened.about.functions).length} functions.`)
  } catch (error) {
    say(`${file.name} cannot be shown: ${error.message}`, true)
  }
}

function show(opened, scripted) {
  const { about } = opened
  for (const name of ['figure', ...RATED]) {
    if (!about.functions[name]) throw new TypeError(`it has no function ${name}`)
  }
  fallback = scripted
  robot = new Robot(opened)
  rows = makeRows(about)
  view.fit()
  at('card').textContent = about.card
  say('')
  measure()
}

// The robot: its state, its control, its motion

class Robot {
  constructor(made) {
    this.made = made
    this.about = made.about
    for (const name of ['figure', ...RATED]) this[name] = made.batch(name)
    this.ghost = made.batch('figure')
    this.target = Float64Array.from(this.about.neutral)
    const bend = this.about.coordinates.length > 8 ? 0.1 : 0.5  // rad or m: arms show what they are
    for (const [n, c] of this.about.coordinates.entries()) {
      const x = this.target[c.q] + (n % 2 ? bend : -bend)
      this.target[c.q] = Math.min(c.upper, Math.max(c.lower, x))
    }
    this.start()
  }

  start() {
    this.q = Float64Array.from(this.target)
    this.v = new Float64Array(this.about.nv)
    this.tau = new Float64Array(this.about.nv)
    this.trail = []
  }

  /** The torques of a controller: computed torque towards the sliders, or drag alone. */
  control(hold) {
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
    }
    if (!this.v.every(Number.isFinite)) this.start()
    this.mass_matrix.inputs.q.set(this.q)
    this.mass_matrix.run()
  }

  push() {
    for (let i = 0; i < this.v.length; i++) this.v[i] += 2 * Math.random() - 1
  }

  /** The points of the figure at a configuration, and the world's origin behind them. */
  points(q, figure = this.figure) {
    figure.inputs.q.set(q)
    figure.run()
    return figure.outputs.points
  }
}

// The sliders

let rows = []

function makeRows({ coordinates }) {
  at('sliders').replaceChildren()
  return coordinates.map(c => {
    const row = document.createElement('label'), bar = document.createElement('i')
    row.className = 'joint'
    const [name, angle, torque] = ['span', 'output', 'output'].map(x => document.createElement(x))
    const slider = document.createElement('input'), track = document.createElement('div')
    name.textContent = name.title = c.name
    Object.assign(slider, { type: 'range', min: c.lower, max: c.upper, step: 'any' })
    slider.value = robot.target[c.q]
    slider.addEventListener('input', () => {
      robot.target[c.q] = Number(slider.value)
      document.querySelector('[name=mode][value=hold]').checked = true
    })
    track.className = 'bar'
    track.append(bar)
    row.append(name, angle, torque, slider, track)
    at('sliders').append(row)
    return { c, angle, torque, bar }
  })
}

function tell() {
  const most = Math.max(1, ...rows.map(({ c }) => Math.abs(robot.tau[c.v])))
  for (const { c, angle, torque, bar } of rows) {
    const x = robot.tau[c.v]
    angle.textContent = `${robot.q[c.q].toFixed(3)} ${c.unit}`
    torque.textContent = `${x.toFixed(2)} ${UNITS[c.unit]}`
    bar.style.width = `${50 * Math.abs(x) / most}%`
    bar.style.left = `${50 - (x < 0 ? 50 * -x / most : 0)}%`
    bar.className = x < 0 ? 'negative' : ''
  }
}

// The drawings

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

const view = {
  yaw: 0.7,
  pitch: 0.3,
  low: [0, 0, 0],
  high: [1, 1, 1],
  floor: 0,

  /** Looks at all that the figure reaches as one joint turns; what falls knows no limits. */
  fit() {
    const poses = [robot.target], turns = [Math.PI / 2, -Math.PI / 2, Math.PI]
    for (const c of robot.about.coordinates) {
      for (const x of c.unit === 'rad' ? turns : [c.lower, c.upper]) {
        const q = Float64Array.from(robot.about.neutral)
        q[c.q] = x
        poses.push(q)
      }
    }
    this.low = [0, 0, 0]
    this.high = [0, 0, 0]
    for (const q of poses) {
      const points = robot.points(q)
      if (q === robot.target) {
        this.floor = points.reduce((z, x, n) => n % 3 === 2 ? Math.min(z, x) : z, 0)
      }
      points.forEach((x, n) => {
        this.low[n % 3] = Math.min(this.low[n % 3], x)
        this.high[n % 3] = Math.max(this.high[n % 3], x)
      })
    }
  },

  /** Where a point of the world is on a canvas. */
  project(w, h) {
    const middle = this.low.map((x, i) => (x + this.high[i]) / 2)
    const reach = Math.max(0.1, ...this.low.map((x, i) => this.high[i] - x))
    const scale = 0.95 * Math.min(w, h) / reach
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch),
      Math.sin(this.pitch)]
    return (x, y, z) => {
      const [a, b, c] = [x - middle[0], y - middle[1], z - middle[2]]
      const right = cy * a + sy * b, away = cy * b - sy * a
      return [w / 2 + scale * right, h / 2 - scale * (cp * c - sp * away), away * cp + c * sp]
    }
  },
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
  const z = view.floor
  context.strokeStyle = colour('--ground')
  context.lineWidth = 1
  for (let k = -n; k <= n; k++) {
    line(context, project(k * cell, -n * cell, z), project(k * cell, n * cell, z))
    line(context, project(-n * cell, k * cell, z), project(n * cell, k * cell, z))
  }
}

function skeleton(context, points, project, stroke, width) {
  const place = n => n < 0 ? project(0, 0, 0) : project(...points.subarray(3 * n, 3 * n + 3))
  const drawn = robot.about.lines.map(([a, b]) => [place(a), place(b)])
  drawn.sort((x, y) => y[0][2] + y[1][2] - x[0][2] - x[1][2])  // the farthest first
  context.lineCap = 'round'
  context.strokeStyle = context.fillStyle = stroke
  for (const [from, to] of drawn) {
    context.lineWidth = width
    line(context, from, to)
    context.beginPath()
    context.arc(to[0], to[1], 0.8 * width, 0, 7)
    context.fill()
  }
}

function drawFigure() {
  const { context, w, h } = surface(at('figure')), project = view.project(w, h)
  ground(context, project)
  const many = robot.about.lines.length > 15
  if (holds()) {
    const ghost = robot.points(robot.target, robot.ghost)
    skeleton(context, ghost, project, colour('--line'), many ? 3 : 5)
  }
  const points = robot.points(robot.q), last = points.slice(-3)
  robot.trail.push(last)
  if (robot.trail.length > 240) robot.trail.shift()
  context.strokeStyle = `rgb(${colour('--negative')})`
  context.lineWidth = 1.5
  context.beginPath()
  for (const p of robot.trail) context.lineTo(...project(...p).slice(0, 2))
  context.stroke()
  skeleton(context, points, project, colour('--accent'), many ? 3.5 : 7)
}

let pointed = null

function drawMatrix() {
  const { context, w } = surface(at('matrix')), n = robot.about.nv
  const M = robot.mass_matrix.outputs.M, cell = w / n
  const most = Math.max(...M.map(Math.abs)) || 1
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      const x = M[i * n + j], share = Math.sqrt(Math.abs(x) / most)
      context.fillStyle = `rgb(${colour(x < 0 ? '--negative' : '--positive')} / ${share})`
      context.fillRect(j * cell, i * cell, cell + 0.5, cell + 0.5)
    }
  }
  context.strokeStyle = colour('--line')
  context.strokeRect(0.5, 0.5, w - 1, w - 1)
  if (!pointed) {
    at('entry').textContent = 'Blue is positive, orange negative; the shade grows with the root of '
      + `the entry, up to ${most.toPrecision(3)} in SI units. Point at an entry to read it.`
    return
  }
  const [i, j] = pointed.map(x => Math.min(n - 1, Math.floor(x * n)))
  context.strokeStyle = colour('--ink')
  context.strokeRect(j * cell, i * cell, cell, cell)
  at('entry').textContent = `M[${i}][${j}] = ${M[i * n + j].toPrecision(4)}`
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
  const slow = supported() ? fallback : null
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
    if (supported()) fast.textContent = shown(found)
    else [fast.textContent, plain.textContent] = ['–', shown(found)]
    if (!slow) continue
    const plainly = await rate(slow, name, 40, mine)
    if (mine !== session) return
    plain.textContent = shown(plainly)
  }
  document.body.dataset.measured = 'yes'
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
    if (kind === 'drop' && event.dataTransfer.files[0]) dropped(event.dataTransfer.files[0])
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
at('matrix').addEventListener('pointermove', event => {
  pointed = [event.offsetY, event.offsetX].map(x => x / at('matrix').clientWidth)
})
at('matrix').addEventListener('pointerleave', () => { pointed = null })

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

document.body.dataset.ready = (await choose(data[0])).toFixed(1)  // ms
requestAnimationFrame(frame)
