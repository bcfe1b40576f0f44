// Inverse dynamics in Node beside pinocchio-js and @mujoco/mujoco, at the same states of a robot:
//
//     npm install pinocchio-js @mujoco/mujoco
//     sed '/<dynamics/d' featherlane/robot/bundled/iiwa14.urdf > plain.urdf
//     featherlane generate plain.urdf --target wasm --name plain --output made
//     node browser_peers.mjs plain.urdf made/plain.mjs node_modules
//
// The same for atlas.urdf. The file has no damping, which pinocchio-js leaves out. On robots with
// branches two things would make torques differ: the reader of pinocchio-js numbers joints breadth
// first, which is undone here, and MuJoCo takes the forces of joint limits from qfrc_inverse at states
// beyond them, so that constraints are switched off. Prints microseconds of processor time for a
// state, the best of rounds in turn, and the largest difference from this package's torques.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'

const STATES = 256, ROUNDS = 15
const [urdf, library, modules] = process.argv.slice(2).map(path => resolve(path))
const text = readFileSync(urdf, 'utf8'), require = createRequire(`${modules}/x.js`)
const from = path => import(pathToFileURL(path))

async function ours() {
  const robot = await (await from(library)).load(), { about } = robot
  const many = robot.batch('inverse_dynamics', STATES), one = robot.batch('inverse_dynamics')
  return {
    nv: about.nv,
    names: about.velocities,
    'featherlane, 256 states in a call': states => {
      states.forEach(([q, v, a], n) => {
        many.inputs.q.set(q, n * about.nq)
        many.inputs.v.set(v, n * about.nv)
        many.inputs.a.set(a, n * about.nv)
      })
      const { tau } = many.run()
      return states.map((_, n) => [...tau.slice(n * about.nv, (n + 1) * about.nv)])
    },
    'featherlane, a state in a call': states => states.map(([q, v, a]) => {
      one.inputs.q.set(q)
      one.inputs.v.set(v)
      one.inputs.a.set(a)
      return [...one.run().tau]
    }),
  }
}

/** Where each joint of pinocchio-js, breadth first, is among ours, by their names. */
function breadthFirst({ joints, rootLink }, names) {
  const found = []
  for (const queue = [rootLink]; queue.length;) {
    const link = queue.shift()
    for (const joint of joints.filter(each => each.parentLink === link)) {
      if (joint.type !== 'fixed') found.push(names.indexOf(joint.name))
      queue.push(joint.childLink)
    }
  }
  return found
}

async function pinocchio(names) {
  globalThis.DOMParser = require('xmldom').DOMParser
  const pin = await require(`${modules}/pinocchio-js/build/pinocchio.js`)()
  const parser = await from(`${modules}/pinocchio-js/src/urdf-parser.mjs`)
  const parsed = parser.parseURDF(text), order = breadthFirst(parsed, names)
  const model = parser.buildPinocchioModel(pin, parsed), data = new pin.Data(model)
  const ordered = order.every((n, k) => n === k)
  const theirs = x => ordered ? x : Float64Array.from(order, n => x[n])
  const back = tau => {
    if (ordered) return [...tau]
    const found = new Array(order.length)
    order.forEach((n, k) => { found[n] = tau[k] })
    return found
  }
  const kept = new WeakMap()  // states in their order: its making is not counted
  const their = state => kept.get(state) ?? kept.set(state, state.map(theirs)).get(state)
  return {
    'pinocchio-js': states => states.map(state => back(pin.rnea(model, data, ...their(state)))),
  }
}

async function mujoco() {
  const made = await (await from(`${modules}/@mujoco/mujoco/mujoco.js`)).default()
  const model = made.MjModel.from_xml_string(text), data = new made.MjData(model)
  model.opt.disableflags |= 1  // mjDSBL_CONSTRAINT
  return {
    '@mujoco/mujoco': states => states.map(([q, v, a]) => {
      data.qpos.set(q)
      data.qvel.set(v)
      data.qacc.set(a)
      made.mj_inverse(model, data)
      return [...data.qfrc_inverse]
    }),
  }
}

const { nv, names, ...methods } = await ours()
Object.assign(methods, await pinocchio(names), await mujoco())
const numbers = (n, k) => Float64Array.from({ length: nv }, (_, i) => Math.sin(7 * n + 3 * k + i))
const states = Array.from({ length: STATES }, (_, n) => [0, 1, 2].map(k => numbers(n, k)))
const best = {}
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, method] of Object.entries(methods)) {
    const began = process.cpuUsage()
    for (let k = 0; k < 10; k++) method(states)
    const { user, system } = process.cpuUsage(began)
    best[name] = Math.min(best[name] ?? Infinity, (user + system) / (10 * STATES))
  }
}
const wanted = Object.values(methods)[0](states).flat()
for (const [name, method] of Object.entries(methods)) {
  const wrong = Math.max(...method(states).flat().map((x, n) => Math.abs(x - wanted[n])))
  console.log(`${name}: ${best[name].toFixed(2)} us, difference ${wrong.toExponential(1)} N m`)
}
