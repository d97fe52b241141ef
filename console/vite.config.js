import { defineConfig } from "vite";

// What is built is part of the repository, so that nobody who installs the service needs this: names change with
// content, and nothing in the files depends on where or when they were made.
export default defineConfig({
  base: "/console/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../kernel_gateway/faces/console/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    license: { fileName: "licenses.md" }, // of what is in the built files, as their licences ask for
  },
});
