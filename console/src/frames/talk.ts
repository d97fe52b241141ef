// How a frame and the page around it talk: the frame says that it is ready, is given something to show, and says how high
// that is. The origin of a frame is none, so neither side can name the other's; each looks at who sent a message.

/** What the page sends; of each kind of frame one field. */
export interface Given { html?: string; text?: string; latex?: boolean; figure?: unknown; widget?: { view: string; state: Record<string, unknown>; moves?: boolean } }

/** What a frame of widgets asks for: new values of one that it shows, or a click on it. The page looks at each before it does that. */
export interface Move { model: string; state?: Record<string, unknown>; event?: "click" }

function measure(): void {
  parent.postMessage({ height: Math.ceil(document.body.getBoundingClientRect().bottom) }, "*");
}

/** Show whatever the page sends, and say how high it is as often as that changes. */
export function listen(show: (given: Given) => void | Promise<void>): void {
  new ResizeObserver(measure).observe(document.body);
  addEventListener("message", async (event) => {
    if (event.source !== parent || event.data === null || typeof event.data !== "object") return;
    try {
      await show(event.data as Given);
    } catch (error) {
      const said = document.createElement("p");
      said.textContent = `It could not be drawn: ${String((error as Error)?.message ?? error).slice(0, 300)}`;
      document.body.replaceChildren(said);
    }
    measure();
  });
  parent.postMessage({ ready: true }, "*");
}

const FORBIDDEN = "script, meta, base, link, iframe, frame, object, embed, form, portal, noscript";

/** HTML without what would do more than show; the policy of the frame lets none of that act either. */
export function clean(html: string): Node[] {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const each of page.querySelectorAll(FORBIDDEN)) each.remove();
  return [...page.head.childNodes, ...page.body.childNodes];
}

export function put(html: string): void {
  document.body.replaceChildren(...clean(html));
}
