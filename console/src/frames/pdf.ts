// The document in which PDFs show. Its origin is none and its policy lets it ask for nothing, so neither this nor what a
// file makes of it gets at the page around it. Of the pages only those near the window are drawn, and kept.

import { getDocument, type PDFDocumentProxy, type PDFPageProxy } from "pdfjs-dist";
import { WorkerMessageHandler } from "pdfjs-dist/build/pdf.worker.mjs";

const MOST_PAGES = 500;
const MOST_PIXELS = 4_000_000;
const NEAR = "800px";
/** Who scrolls back at once finds a page as it was. */
const KEPT_MILLISECONDS = 2000;

const tell = (message: { ready?: true; pages?: number; page?: number; problem?: string }) => parent.postMessage(message, "*");
// No worker: that would take a script with an address, and this document may have none.
(globalThis as { pdfjsWorker?: unknown }).pdfjsWorker = { WorkerMessageHandler };

async function draw(place: HTMLElement, page: PDFPageProxy): Promise<void> {
  const whole = page.getViewport({ scale: 1 });
  const wanted = (place.clientWidth / whole.width) * Math.min(devicePixelRatio, 2);
  const scale = Math.min(wanted, Math.sqrt(MOST_PIXELS / (whole.width * whole.height)));
  const viewport = page.getViewport({ scale });
  const canvas = document.createElement("canvas");
  canvas.width = Math.floor(viewport.width);
  canvas.height = Math.floor(viewport.height);
  await page.render({ canvas, viewport }).promise;
  place.replaceChildren(canvas);
  tell({ page: page.pageNumber });
}

function lay(file: PDFDocumentProxy, first: PDFPageProxy): void {
  const { width, height } = first.getViewport({ scale: 1 });
  const near = new Set<Element>();
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const place = target as HTMLElement;
      if (!isIntersecting) {
        near.delete(place);
        setTimeout(() => { if (!near.has(place)) place.replaceChildren(); }, KEPT_MILLISECONDS);
        continue;
      }
      near.add(place);
      if (place.firstChild) continue;
      const number = Number(place.dataset["page"]);
      void file.getPage(number).then((page) => {
        const its = page.getViewport({ scale: 1 });
        place.style.aspectRatio = `${its.width} / ${its.height}`;
        return near.has(place) ? draw(place, page) : undefined;
      }).catch(() => { place.textContent = `Page ${number} could not be drawn.`; });
    }
  }, { rootMargin: NEAR });
  for (let number = 1; number <= Math.min(file.numPages, MOST_PAGES); number += 1) {
    const place = document.createElement("div");
    place.dataset["page"] = String(number);
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", `Page ${number}`);
    place.style.aspectRatio = `${width} / ${height}`;
    place.style.maxWidth = `${Math.ceil(width * 1.5)}px`;
    document.body.append(place);
    watch.observe(place);
  }
}

async function show(data: ArrayBuffer): Promise<void> {
  try {
    const file = await getDocument({ data, enableXfa: false, useWasm: false, maxImageSize: 4 * MOST_PIXELS, canvasMaxAreaInBytes: 8 * MOST_PIXELS }).promise;
    lay(file, await file.getPage(1));
    tell({ pages: file.numPages });
  } catch (error) {
    tell({ problem: (error as Error).name === "PasswordException" ? "password" : "broken" });
  }
}

addEventListener("message", (event) => {
  if (event.source === parent && event.data.pdf instanceof ArrayBuffer) void show(event.data.pdf);
});
tell({ ready: true });
