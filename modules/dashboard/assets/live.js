// Live pages: fetches the page again and replaces only the parts that changed, so that nothing flashes, opened
// details stay open and a scrolled log stays where it is. Without this script the page reloads as a whole.
// Filters apply on choice. Everything works without it.
const main = document.querySelector("main[data-live]");
if (main instanceof HTMLElement) {
  const every = Number(main.dataset.live);
  const look = async () => {
    // A page nobody looks at asks for nothing.
    if (document.hidden) return setTimeout(look, every);
    const next = await fetchPage();
    if (next === null) return setTimeout(look, every * 5);
    replaceParts(next);
    // The run has ended: one whole load shows what an ended run shows.
    if (next.querySelector("main[data-live]") === null) return location.reload();
    return setTimeout(look, every);
  };
  setTimeout(look, every);
}

for (const select of document.querySelectorAll("form.filter select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

/** The page as it is now; null while the controller is away (it may be restarting). */
async function fetchPage() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
  if (response === null || !response.ok) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

function replaceParts(next) {
  for (const part of document.querySelectorAll("[data-live-part]")) {
    const fresh = next.querySelector(`[data-live-part="${CSS.escape(part.dataset.livePart)}"]`);
    // Opened boxes and a focused element would be lost: such a part waits.
    const isInUse = part.contains(document.activeElement) || part.querySelector("details[open]") !== null;
    if (fresh === null || isInUse || fresh.innerHTML === part.innerHTML) continue;
    const log = part.querySelector(".log");
    const wasAtEnd = log !== null && log.scrollHeight - log.scrollTop - log.clientHeight < 8;
    const top = log?.scrollTop ?? 0;
    part.innerHTML = fresh.innerHTML;
    const after = part.querySelector(".log");
    if (after !== null) after.scrollTop = wasAtEnd ? after.scrollHeight : top;
  }
}

for (const log of document.querySelectorAll(".log")) log.scrollTop = log.scrollHeight;
