// XML of robot files, read without the document of a browser, so that Node reads it as well.

const TOKENS = new RegExp([
  '<!--[^]*?-->|<\\?[^]*?\\?>|<!\\[CDATA\\[[^]*?\\]\\]>|<!DOCTYPE[^>\\[]*>',
  '<(?<end>/?)(?<tag>[\\w:.-]+)(?<attributes>(?:\\s+[\\w:.-]+\\s*=\\s*(?:"[^"<]*"|\'[^\'<]*\'))*)'
    + '\\s*(?<empty>/?)>',
].join('|'), 'g')
const ATTRIBUTE = /([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g
const ENTITIES = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

/** The root element of a text: {tag, attributes, children, line}. */
function parseXml(text) {
  const top = { tag: '', attributes: {}, children: [], line: 1 }, open = [top]
  let at = 0, line = 1
  const pass = to => {  // the text between two tags, which holds no other tag
    const [blank, ...rest] = text.slice(at, to).split('<')
    line += blank.split('\n').length - 1
    if (rest.length) throw new Error(`line ${line}: not well-formed XML`)
    at = to
  }
  for (const token of text.matchAll(TOKENS)) {
    pass(token.index)
    const { end, tag, attributes, empty } = token.groups
    if (end && open.pop().tag !== tag) throw new Error(`line ${line}: </${tag}> ends nothing`)
    if (tag && !end) {
      const element = { tag, attributes: attributesOf(attributes), children: [], line }
      open.at(-1).children.push(element)
      if (!empty) open.push(element)
    }
    line += token[0].split('\n').length - 1
    at += token[0].length
  }
  pass(text.length)
  if (open.length > 1) throw new Error(`line ${open.at(-1).line}: <${open.at(-1).tag}> has no end`)
  if (!top.children.length) throw new Error('there is no XML in it')
  return top.children[0]
}

function attributesOf(text) {
  const pairs = [...text.matchAll(ATTRIBUTE)].map(([, name, double, single]) => {
    const value = double ?? single
    return [name, value.replace(/&(\w+);/g, (whole, entity) => ENTITIES[entity] ?? whole)]
  })
  return Object.fromEntries(pairs)
}

const childrenOf = (element, tag) => element.children.filter(child => child.tag === tag)
const childOf = (element, tag) => childrenOf(element, tag)[0]
const fault = (element, text) => {
  const name = element.attributes.name ? ` '${element.attributes.name}'` : ''
  return new Error(`line ${element.line}: ${element.tag}${name}: ${text}`)
}

/** The numbers of an attribute; a fallback of undefined makes it a required one. */
function numbersOf(element, attribute, fallback, count = fallback?.length) {
  const text = element?.attributes[attribute]
  if (text === undefined && fallback !== undefined) return fallback
  if (text === undefined) throw fault(element, `its attribute '${attribute}' is missing`)
  const numbers = text.trim().split(/\s+/).map(Number)
  if (text.includes('${')) throw fault(element, 'a xacro file must be expanded first: run xacro')
  if (!numbers.every(Number.isFinite) || (count && numbers.length !== count)) {
    throw fault(element, `${attribute} holds '${text}'; wanted ${count || 'finite'} numbers`)
  }
  return numbers
}

const numberOf = (element, attribute, fallback) =>
  numbersOf(element, attribute, fallback === undefined ? undefined : [fallback], 1)[0]
