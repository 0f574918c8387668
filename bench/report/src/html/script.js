"use strict";
// The page is complete without this: tables become sortable, legends become switches, and the list of pages marks the
// one that is shown.
const figures = JSON.parse(document.getElementById("figures").textContent);
const mark = () => {
  const at = location.hash.slice(1).split("-")[0] || "overview";
  for (const link of document.querySelectorAll(".contents a")) {
    if (link.hash === `#${at}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
};
addEventListener("hashchange", mark);
mark();
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[column];
        if (!cell) return null;
        if (head.classList.contains("t")) return cell.textContent;
        // A number has its exact value in the JSON; others are read from the text.
        const values = figures.rows[row.dataset.row];
        const exact = values && values[figures.columns.indexOf(head.dataset.figure)];
        if (typeof exact === "number") return exact;
        const read = Number.parseFloat(cell.lastChild.textContent.replaceAll(",", "").replace("−", "-"));
        return Number.isNaN(read) ? null : read;
      };
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        const sign = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
        return rising ? sign : -sign;
      };
      for (const body of table.tBodies) {
        body.append(...[...body.rows].filter((row) => !row.classList.contains("group")).sort(order));
      }
    });
  });
}
for (const legend of document.querySelectorAll(".legend")) {
  for (const item of legend.querySelectorAll("li")) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.append(...item.childNodes);
    item.append(button);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      const same = (mark) => mark.dataset.system === item.dataset.system;
      const marks = legend.closest("section").querySelectorAll("svg .series");
      [...marks].filter(same).forEach((mark) => mark.classList.toggle("off", !on));
    });
  }
}
// Marks have titles, which a browser shows late and never for the keyboard. With the script, one box shows the
// value of the mark under the pointer; a chart takes the focus, and the arrow keys go through its marks.
const box = document.createElement("div");
box.className = "value-box";
box.setAttribute("role", "status");
box.hidden = true;
document.body.append(box);
const show = (mark, says) => {
  document.querySelectorAll(".pointed").forEach((other) => other.classList.remove("pointed"));
  mark.classList.add("pointed");
  box.textContent = says;
  box.hidden = false;
  const at = mark.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left + at.width / 2 - box.offsetWidth / 2), innerWidth - box.offsetWidth - 8);
  const above = at.top - box.offsetHeight - 8;
  box.style.left = `${left}px`;
  box.style.top = `${above > 48 ? above : at.bottom + 8}px`;
};
const hide = () => {
  box.hidden = true;
  document.querySelectorAll(".pointed").forEach((other) => other.classList.remove("pointed"));
};
for (const chart of document.querySelectorAll("figure.chart svg")) {
  const marks = [];
  for (const title of chart.querySelectorAll("g title")) {
    const mark = title.parentElement;
    const says = title.textContent;
    title.remove();
    marks.push([mark, says]);
    mark.addEventListener("pointerenter", () => show(mark, says));
    mark.addEventListener("pointerleave", hide);
  }
  if (marks.length === 0) continue;
  let at = -1;
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    const seen = marks.filter(([mark]) => !mark.closest(".off"));
    at = (at + step + seen.length) % seen.length;
    show(...seen[at]);
  });
  chart.addEventListener("blur", hide);
}
addEventListener("scroll", hide, { passive: true });
