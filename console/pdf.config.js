import { readFile } from "node:fs/promises";
import { defineConfig } from "vite";

// The document for PDFs in one file: nothing with an address can be loaded into it, so its script is in it.
const inOneFile = {
  name: "in-one-file",
  // Last: the licences are read from what is in the bundle.
  generateBundle: { order: "post", async handler(_options, bundle) {
    const [script] = Object.values(bundle).filter((each) => each.type === "chunk");
    const template = await readFile(new URL("src/pdf.html", import.meta.url), "utf8");
    // What would end the script, or change how its end is found, is written otherwise.
    const code = script.code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
    delete bundle[script.fileName];
    const source = template.replace(/<script>.*<\/script>/, () => `<script>${code}</script>`);
    this.emitFile({ type: "asset", fileName: "pdf.html", source });
  } },
};

export default defineConfig({
  publicDir: false,
  plugins: [inOneFile],
  build: {
    outDir: "../kernel_gateway/faces/console/static",
    emptyOutDir: false,
    target: "es2022",
    chunkSizeWarningLimit: 4000,
    rolldownOptions: { input: "src/pdf_frame.ts", transform: { define: { "import.meta": "{}" } }, output: { format: "iife", codeSplitting: false } },
    license: { fileName: "licenses-pdf.md" },
  },
});
