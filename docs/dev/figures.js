// A figure that is touched is shown as wide as its labels need, and scrolls; touched again, it goes.
const WIDEST = 1000 // pixels, at which the smallest labels of the figures are readable

function enlarged(figure) {
  const view = document.createElement("dialog")
  view.className = "figure-view"
  const picture = new Image()
  Object.assign(picture, { src: figure.src, alt: figure.alt })
  picture.style.width = `${Math.max(WIDEST, window.innerWidth - 32)}px`
  view.append(picture)
  view.addEventListener("click", () => view.close())
  view.addEventListener("close", () => view.remove())
  document.body.append(view)
  view.showModal()
}

for (const figure of document.querySelectorAll(".figure img, .md-content picture > img")) {
  figure.title ||= "press to enlarge"
  figure.addEventListener("click", () => enlarged(figure))
}
