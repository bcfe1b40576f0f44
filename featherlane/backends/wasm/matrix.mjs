// The mass matrix as a heat map with the names of joints, whose entries are read by touching them.

const CELL = 11  // pixels: smaller rows have no names beside the map, which then has all the room
let touched = null  // the row and column of an entry

/** The place of the map on its canvas: the width of the names, 0 without, and the size of a cell. */
function mapPlace(context, w) {
  const names = robot.about.velocities ?? robot.about.coordinates.map(c => c.name)
  context.font = '11px system-ui, sans-serif'
  const widest = Math.max(...names.map(name => context.measureText(name).width)) + 8
  const beside = Math.min(widest, 0.28 * w), margin = w - beside < CELL * names.length ? 0 : beside
  return { names, margin, cell: (w - margin) / names.length }
}

function drawMatrix() {
  const { context, w } = surface(at('matrix')), { names, margin, cell } = mapPlace(context, w)
  const M = robot.mass_matrix.outputs.M, n = names.length, most = Math.max(...M.map(Math.abs)) || 1
  for (let i = 0; i < n; i++) {
    if (margin) drawNames(context, names[i], i, margin, cell)
    for (let j = 0; j < n; j++) {
      const x = M[i * n + j], share = Math.sqrt(Math.abs(x) / most)
      context.fillStyle = `rgb(${colour(x < 0 ? '--negative' : '--positive')} / ${share})`
      context.fillRect(margin + j * cell, margin + i * cell, cell + 0.5, cell + 0.5)
    }
  }
  context.strokeStyle = colour('--line')
  context.strokeRect(margin, margin, n * cell - 0.5, n * cell - 0.5)
  if (touched) frameEntry(context, margin, cell)
  at('entry').textContent = entryText(M, names, most)
}

/** The name of a row and a column. */
function drawNames(context, name, i, margin, cell) {
  const [row, column] = touched ?? [-1, -1]
  context.textBaseline = 'middle'
  context.textAlign = 'right'
  const write = (isTouched, turn) => {
    context.save()
    context.fillStyle = colour(isTouched ? '--ink' : '--soft')
    if (turn) {
      context.translate(margin + (i + 0.5) * cell, margin - 4)
      context.rotate(Math.PI / 2)
    } else context.translate(margin - 4, margin + (i + 0.5) * cell)
    context.fillText(name, 0, 0, margin - 6)
    context.restore()
  }
  write(row === i, false)
  write(column === i, true)
}

function frameEntry(context, margin, cell) {
  const [i, j] = touched
  context.strokeStyle = colour('--ink')
  context.strokeRect(margin + j * cell, margin + i * cell, cell, cell)
}

function entryText(M, names, most) {
  if (touched === null) {
    return 'Blue is positive, orange negative; the shade grows with the root of the entry, up to '
      + `${most.toPrecision(3)}. Touch an entry to read it.`
  }
  const [i, j] = touched
  return `M[${names[i]}, ${names[j]}] = ${M[i * names.length + j].toPrecision(4)} ${unitOf(i, j)}`
}

/** The unit of an entry: kg for each pair of lengths, a metre more for each angle. */
function unitOf(i, j) {
  const turns = k => {
    const c = robot.about.coordinates.find(each => each.v === k)
    return c ? c.unit === 'rad' : /ω/.test(robot.about.velocities?.[k] ?? 'ω')
  }
  return ['kg', 'kg m', 'kg m²'][Number(turns(i)) + Number(turns(j))]
}

function touch(event) {
  const { context, w } = surface(at('matrix')), { names, margin, cell } = mapPlace(context, w)
  const entry = [event.offsetY, event.offsetX].map(x => Math.floor((x - margin) / cell))
  touched = entry.every(x => x >= 0 && x < names.length) ? entry : null
}

function moveTouched(event) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }
  if (!moves[event.key]) return
  const n = robot.about.nv, start = touched ?? [0, 0]
  touched = start.map((x, k) => Math.min(n - 1, Math.max(0, x + moves[event.key][k])))
  event.preventDefault()
}
