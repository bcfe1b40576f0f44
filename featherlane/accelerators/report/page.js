"use strict";
const given = JSON.parse(document.getElementById("units").textContent);

// Tables are sorted by a click on the name of a column
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th").forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => {
        const cell = row.cells[column];
        return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
      };
      const before = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
      const rows = [...body.rows].sort((a, b) => before(value(a), value(b)) * (down ? -1 : 1));
      body.append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}

// A step that is chosen shows where it reads from, and its units in each phase
const boxes = [...document.querySelectorAll("g.box")];
const panel = document.getElementById("chosen");

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function phases(units) {
  const table = element("table", undefined, "phases");
  const head = table.createTHead().insertRow();
  head.append(element("th", "unit"));
  for (let n = 0; n < given.interval; n++) head.append(element("th", `phase ${n}`));
  const body = table.createTBody();
  units.forEach(([kind, slots], number) => {
    const row = body.insertRow();
    row.append(element("th", `${kind.replaceAll("_", " ")}, ${number + 1}`));
    for (let n = 0; n < given.interval; n++) {
      const here = slots.filter(([cycle]) => cycle % given.interval === n);
      const words = here.map(([cycle, what]) => `${what} in ${cycle}`).join("; ");
      row.append(element("td", words, here.length ? "busy" : ""));
    }
  });
  const place = element("div", undefined, "scroll");
  place.append(table);
  return place;
}

function choose(box) {
  const again = box.classList.contains("chosen");
  const reads = new Set(box.dataset.reads.split(" "));
  for (const other of boxes) {
    other.classList.remove("chosen", "read", "other");
    if (again) continue;
    other.classList.add(
      other === box ? "chosen" : reads.has(other.dataset.box) ? "read" : "other",
    );
  }
  panel.replaceChildren();
  panel.hidden = again;
  if (again) return;
  const name = box.dataset.box;
  panel.append(element("h3", `${name}: shared units`));
  const units = given.units[name];
  const from = box.dataset.reads ? `It reads from ${[...reads].join(", ")}. ` : "";
  const told = units
    ? `${from}Cells name the operation, the node of its result, and the task's cycle.`
    : `${from}It has no shared units of its own.`;
  panel.append(element("p", told));
  if (units) panel.append(phases(units));
}

for (const box of boxes) {
  box.addEventListener("click", () => choose(box));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(box);
    }
  });
}

// A function that is chosen shows its way through stations and links
const buttons = [...document.querySelectorAll(".choices button")];
for (const button of buttons) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    for (const other of buttons) other.setAttribute("aria-pressed", String(on && other === button));
    for (const way of document.querySelectorAll(".way")) {
      const here = way.dataset.functions.split(" ").includes(button.value);
      way.classList.toggle("on", on && here);
      way.classList.toggle("off", on && !here);
    }
  });
}
