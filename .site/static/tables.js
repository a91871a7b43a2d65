// Names the column of each cell, so that site.css can show a table as lists on a narrow screen.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.docutils")) {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    if (names.length < 3) continue;
    table.classList.add("wide");
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.children].forEach((cell, place) => names[place] && cell.setAttribute("data-column", names[place]));
  }
});
