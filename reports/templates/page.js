// What no vendored part does: sorting by keyboard, folds that open for a link into them and for paper, "Copied".
enhanceSortableAccessibility(document.querySelectorAll("table.sortable"));
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  target?.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();
document.addEventListener("clipboard-copy", ({ target }) => {
  target.textContent = "Copied";
  setTimeout(() => (target.textContent = "Copy"), 1500);
});
