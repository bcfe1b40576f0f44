// Sliders with zero in the middle: they follow the motion, and the robot follows the one that is
// moved.

const shortened = x => String(Number(x.toFixed(2)))

function makeRows({ coordinates }) {
  at('sliders').replaceChildren()
  return coordinates.map(c => {
    const row = document.createElement('label'), bar = document.createElement('i')
    row.className = 'joint'
    const [name, angle, torque] = ['span', 'output', 'output'].map(x => document.createElement(x))
    name.textContent = name.title = c.name
    const slider = sliderOf(c), track = document.createElement('div')
    track.className = 'bar'
    track.append(bar)
    row.append(name, angle, torque, slider, scaleOf(c), track)
    at('sliders').append(row)
    return { c, angle, torque, bar, slider }
  })
}

const endOf = c => Math.max(Math.abs(c.lower), Math.abs(c.upper))

function sliderOf(c) {
  const slider = document.createElement('input'), end = endOf(c)
  Object.assign(slider, { type: 'range', min: -end, max: end, step: 'any' })
  slider.value = robot.target[c.q]
  const share = x => `${50 + 50 * x / end}%`
  slider.style.setProperty('--from', share(c.lower))
  slider.style.setProperty('--to', share(c.upper))
  slider.addEventListener('input', () => {
    hold()
    robot.target[c.q] = Math.min(c.upper, Math.max(c.lower, Number(slider.value)))
  })
  return slider
}

function scaleOf(c) {
  const scale = document.createElement('div'), end = endOf(c)
  scale.className = 'scale'
  for (const text of [shortened(-end), '0', `${shortened(end)} ${c.unit}`]) {
    scale.append(Object.assign(document.createElement('span'), { textContent: text }))
  }
  return scale
}

/** Lets the robot follow the sliders; one that was let go keeps the pose in which it is. */
function hold() {
  if (!holds()) robot.keepPose()
  document.querySelector('[name=mode][value=hold]').checked = true
}

function tell() {
  const most = Math.max(1, ...rows.map(({ c }) => Math.abs(robot.tau[c.v])))
  for (const { c, angle, torque, bar, slider } of rows) {
    const x = robot.tau[c.v]
    if (!holds()) slider.value = robot.q[c.q]
    angle.textContent = `${robot.q[c.q].toFixed(3)} ${c.unit}`
    torque.textContent = `${x.toFixed(2)} ${UNITS[c.unit]}`
    bar.style.width = `${50 * Math.abs(x) / most}%`
    bar.style.left = `${50 - (x < 0 ? 50 * -x / most : 0)}%`
    bar.className = x < 0 ? 'negative' : ''
  }
}
