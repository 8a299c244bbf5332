/**
 * Probes: what the dashboard's test asks a page in the browser. Loaded into every page by test/dashboard.test.ts;
 * plain JavaScript, as it runs there and not in Node.
 */
globalThis.probes = {
  /** How many pixels the page is wider than the window, with every box of details open. */
  tooWide() {
    for (const details of document.querySelectorAll("main details")) details.open = true;
    return Math.max(0, document.documentElement.scrollWidth - window.innerWidth);
  },

  /** The beginning of what the focused element says. */
  focused() {
    return document.activeElement?.textContent.trim().slice(0, 40) ?? "";
  },

  /** Boxes that scroll and cannot be reached by keyboard; controls without a name. */
  unreachable() {
    const found = [];
    for (const element of document.querySelectorAll("main *")) {
      const style = getComputedStyle(element);
      const may = (overflow) => ["auto", "scroll"].includes(overflow);
      const scrolls =
        (may(style.overflowX) && element.scrollWidth > element.clientWidth + 1) ||
        (may(style.overflowY) && element.scrollHeight > element.clientHeight + 1);
      if (scrolls && element.tabIndex !== 0) found.push(`box ${element.className}`);
      if (!element.matches("a, button, select, progress")) continue;
      const name = element.getAttribute("aria-label") ?? element.textContent;
      const isNamed = element.matches("select") ? element.labels.length > 0 : name.trim() !== "";
      if (!isNamed) found.push(element.outerHTML.slice(0, 80));
    }
    return found;
  },

  /** Pairs of words in the visible figures that lie over each other. */
  overlaps() {
    return [...document.querySelectorAll(".figure svg")].flatMap((figure) => {
      const words = [...figure.querySelectorAll("text")].map((word) => ({
        text: word.textContent,
        box: word.getBoundingClientRect(),
      }));
      const isOver = ({ box: one }, { box: other }) =>
        one.left < other.right && other.left < one.right && one.top < other.bottom - 1 && other.top < one.bottom - 1;
      return words.flatMap((one, at) =>
        words
          .slice(at + 1)
          .filter((other) => isOver(one, other))
          .map((other) => `${one.text} / ${other.text}`),
      );
    });
  },

  /** Words whose contrast with their ground is under the 4.5 to 1 of WCAG 2, level AA. */
  faintWords() {
    const channels = (color) => color.match(/[\d.]+/g).map(Number);
    const luminance = (color) => {
      const [red, green, blue] = channels(color).map((value) => {
        const share = value / 255;
        return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ground = (element) => {
      if (element === null) return "rgb(255, 255, 255)";
      const color = getComputedStyle(element).backgroundColor;
      return channels(color)[3] === 0 ? ground(element.parentElement) : color;
    };
    const faint = new Set();
    for (const element of document.querySelectorAll("body *")) {
      const hasWords = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "");
      if (!hasWords || element.closest("svg, noscript, script, .skip") !== null) continue;
      const [one, other] = [luminance(getComputedStyle(element).color), luminance(ground(element))];
      const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      if (contrast < 4.5) faint.add(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
    }
    return [...faint];
  },
};
