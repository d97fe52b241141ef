import { readFile } from "node:fs/promises";
import { defineConfig } from "vite";

// The documents that show what came out of a sandbox, one file each: nothing with an address can be loaded into a document
// that has no origin, so its script is in it. `--mode` says which: its script in src/frames, and the document around it.
const DOCUMENTS = { pdf: "pdf", prose: "prose", plotly: "figure", vega: "figure", parquet: "parquet", widgets: "widgets" };

const inOneFile = (name) => ({
  name: "in-one-file",
  // Last: the licences are read from what is in the bundle.
  generateBundle: { order: "post", async handler(_options, bundle) {
    const [script] = Object.values(bundle).filter((each) => each.type === "chunk");
    const template = await readFile(new URL(`src/frames/${DOCUMENTS[name]}.html`, import.meta.url), "utf8");
    // What would end the script, or change how its end is found, is written otherwise.
    const code = script.code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
    delete bundle[script.fileName];
    const source = template.replace(/<script>.*<\/script>/, () => `<script>${code}</script>`);
    this.emitFile({ type: "asset", fileName: `${name}.html`, source });
  } },
});

export default defineConfig(({ mode }) => ({
  publicDir: false,
  plugins: [inOneFile(mode)],
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    outDir: "../kernel_gateway/faces/console/static",
    emptyOutDir: false,
    target: "es2022",
    chunkSizeWarningLimit: 4000,
    rolldownOptions: { input: `src/frames/${mode}.ts`, transform: { define: { "import.meta": "{}" } }, output: { format: "iife", codeSplitting: false } },
    license: { fileName: `licenses-${mode}.md` },
  },
}));
