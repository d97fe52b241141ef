import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

const OUTPUT = "../kernel_gateway/faces/console/static";
/** The documents of frames keep their names, which the service knows: what changes with their content is the query. */
const FRAMES = { output: "public/output.html", ...Object.fromEntries(["pdf", "prose", "plotly", "vega", "parquet", "widgets"].map((each) => [each, `${OUTPUT}/${each}.html`])) };
const hash = (file) => createHash("sha256").update(readFileSync(new URL(file, import.meta.url))).digest("hex").slice(0, 12);

// What is built is part of the repository, so that nobody who installs the service needs this: names change with
// content, and nothing in the files depends on where or when they were made.
export default defineConfig({
  base: "/console/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  define: { FRAME_HASHES: JSON.stringify(Object.fromEntries(Object.entries(FRAMES).map(([kind, file]) => [kind, hash(file)]))) },
  build: {
    outDir: OUTPUT,
    emptyOutDir: false, // it has the frames already, which are built before this
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    license: { fileName: "licenses.md" }, // of what is in the built files, as their licences ask for
  },
});
