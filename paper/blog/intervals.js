// The interval of a number in the text is shown by the style sheet; Escape puts it away until the
// reader points elsewhere (WCAG 1.4.13).
"use strict";

(() => {
  const root = document.documentElement.classList;
  addEventListener("keydown", (event) => event.key === "Escape" && root.add("put-away"));
  for (const kind of ["pointerover", "focusin"]) addEventListener(kind, () => root.remove("put-away"));
})();
