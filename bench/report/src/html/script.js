"use strict";
// The page is complete without this: tables become sortable, legends become switches.
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
        if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
        return head.classList.contains("n") ? null : cell.textContent;
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
