// What every generated library loads itself with: see docs/browser.md. The section `featherlane` of
// the module, or `about` of the script, says which functions there are and what they take.

const CHUNK = 256  // states that a call copies into the memory of the module at a time

/** The functions of a WebAssembly module (bytes or a compiled module), or of a script. */
export async function open(source) {
  if (source.about) return { ...library(source.about, scripted(source)), scripted: true }
  const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(source)
  const [section] = WebAssembly.Module.customSections(module, 'featherlane')
  if (!section) throw new TypeError('this module was not made by featherlane generate')
  const about = JSON.parse(new TextDecoder().decode(section))
  return library(about, compiled(about, await WebAssembly.instantiate(module, {})))
}

/** Whether this engine runs the modules: WebAssembly with vectors of 128 bits. */
export function supported() {
  // (func (result v128) i32.const 0 i8x16.splat)
  const probe = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0,
    65, 0, 253, 15, 11]
  return typeof WebAssembly === 'object' && WebAssembly.validate(new Uint8Array(probe))
}

const count = shape => shape.reduce((n, k) => n * k, 1)
const arrayOf = about => about.dtype === 'float32' ? Float32Array : Float64Array

/** An engine of rooms in the memory of an instance; run computes whole vectors of states. */
function compiled(about, { exports }) {
  const Type = arrayOf(about), lanes = 16 / Type.BYTES_PER_ELEMENT
  let end = about.end
  return {
    room(states, entries) {
      const address = Math.ceil(end / 16) * 16
      const bytes = Math.ceil(states / lanes) * lanes * entries * Type.BYTES_PER_ELEMENT
      end = address + bytes
      const missing = end - exports.memory.buffer.byteLength
      if (missing > 0) exports.memory.grow(Math.ceil(missing / 65536))
      let view
      return {
        address,
        get view() {  // growing the memory takes the arrays away that lie in it
          if (view?.buffer !== exports.memory.buffer) {
            view = new Type(exports.memory.buffer, address, states * entries)
          }
          return view
        },
      }
    },
    run: (name, states, rooms) => exports[name](states, ...rooms.map(room => room.address)),
  }
}

/** The same with plain arrays, and a function that computes one state after another. */
function scripted({ about, functions }) {
  const Type = arrayOf(about), memories = {}
  return {
    room: (states, entries) => ({ view: new Type(states * entries) }),
    run(name, states, rooms, inputs) {
      const { run, places } = functions[name], m = memories[name] ??= new Type(places)
      const views = rooms.map(room => room.view), sizes = views.map(x => x.length / rooms.states)
      for (let state = 0; state < states; state++) {
        let at = 0
        for (let n = 0; n < views.length; n++) {
          if (n === inputs) run(m)
          const view = views[n], size = sizes[n], first = state * size
          if (n < inputs) for (let j = 0; j < size; j++) m[at + j] = view[first + j]
          else for (let j = 0; j < size; j++) view[first + j] = m[at + j]
          at += size
        }
      }
    },
  }
}

function library(about, engine) {
  const made = { about, batch: (name, states = 1) => batch(about, engine, name, states) }
  for (const name of Object.keys(about.functions)) {
    let kept
    made[name] = given => {
      kept ??= batch(about, engine, name, CHUNK)
      return call(about, name, kept, given)
    }
  }
  return made
}

/** Arrays of a function for so many states, by name, and run(), which computes the outputs. */
function batch(about, engine, name, states) {
  const f = about.functions[name]
  if (!f) throw new TypeError(`there is no function ${name}: ${Object.keys(about.functions)}`)
  const shapes = [...Object.values(f.inputs), ...Object.values(f.outputs)]
  const rooms = shapes.map(shape => engine.room(states, count(shape)))
  rooms.states = states
  const inputs = Object.keys(f.inputs), outputs = Object.keys(f.outputs)
  const made = { states, inputs: {}, outputs: {} }
  for (const [n, key] of [...inputs, ...outputs].entries()) {
    const side = n < inputs.length ? made.inputs : made.outputs
    Object.defineProperty(side, key, { enumerable: true, get: () => rooms[n].view })
  }
  made.run = (many = states) => {
    engine.run(name, many, rooms, inputs.length)
    return made.outputs
  }
  return made
}

/** Copies arguments in and results out, CHUNK states at a time. */
function call(about, name, kept, given = {}) {
  const f = about.functions[name], values = {}
  let states = 1, single = true
  for (const key of Object.keys(given)) {
    if (!f.inputs[key]) throw new TypeError(`${name} has no ${key}: ${Object.keys(f.inputs)}`)
  }
  for (const [key, shape] of Object.entries(f.inputs)) {
    const n = count(shape), x = typeof given[key] === 'number' ? [given[key]] : given[key]
    if (!x || x.length === undefined) throw new TypeError(`${name} wants ${key}: ${n} numbers`)
    if (n && x.length % n) {
      throw new RangeError(`${key} has ${x.length} numbers: ${name} wants ${n}, or ${n} per state`)
    }
    values[key] = x
    const many = n ? x.length / n : 1
    if (many === 1) continue
    if (!single && many !== states) {
      throw new RangeError(`${key} has ${many} states, another argument ${states}`)
    }
    states = many
    single = false
  }
  const results = {}
  for (const [key, shape] of Object.entries(f.outputs)) {
    results[key] = new (arrayOf(about))(states * count(shape))
  }
  for (let first = 0; first < states; first += CHUNK) {
    const here = Math.min(CHUNK, states - first)
    for (const [key, shape] of Object.entries(f.inputs)) {
      const n = count(shape), x = values[key], to = kept.inputs[key]
      if (x.length === n) for (let state = 0; state < here; state++) to.set(x, state * n)
      else if (x.subarray) to.set(x.subarray(first * n, (first + here) * n))
      else to.set(x.slice(first * n, (first + here) * n))
    }
    const outputs = kept.run(here)
    for (const [key, shape] of Object.entries(f.outputs)) {
      const n = count(shape)
      results[key].set(outputs[key].subarray(0, here * n), first * n)
    }
  }
  return results
}
