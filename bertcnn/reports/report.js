// Columns of a table sort by a press of their heading.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const ascending = heading.getAttribute("aria-sort") !== "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const order = (a, b) => key(a) - key(b) || (isNaN(key(a) - key(b)) ? key(a).localeCompare(key(b)) : 0);
      const rows = [...table.tBodies[0].rows].sort(ascending ? order : (a, b) => order(b, a));
      table.tBodies[0].append(...rows);
    });
  });
}
