// Run once in each new Deno kernel, before any code of the user's: see deno_dialect.py.
(() => {
  const ours = "__sandcell";
  if (globalThis[ours]) return;
  const print = Deno[Deno.internal].core.print;
  const broadcast = Deno.jupyter.broadcast;

  // What goes past `console` is published as well.
  for (const [name, isError] of [["stdout", false], ["stderr", true]]) {
    const decoder = new TextDecoder();
    const put = (data) => print(typeof data === "string" ? data : decoder.decode(data, { stream: true }), isError);
    const writeSync = (data) => (put(data), data.byteLength);
    Deno[name].writeSync = writeSync;
    Deno[name].write = (data) => Promise.resolve(writeSync(data));
    process[name].write = (data, encoding, done) => {
      put(data);
      const then = typeof encoding === "function" ? encoding : done;
      if (typeof then === "function") queueMicrotask(() => then());
      return true;
    };
  }

  // Nobody is there to answer, and asking would wait until the deadline.
  const refuse = () => {
    throw new Error(
      "input is not available: this code runs without a person at a keyboard. Put the value into the code, or read it" +
        " from a file in the workspace",
    );
  };
  globalThis.prompt = refuse;
  globalThis.confirm = refuse;
  globalThis.alert = (message = "") => print(`${message}\n`, false);

  // The code is parsed and its imports are resolved, and never run: the import that is added exists nowhere.
  const explain = async (code) => {
    try {
      const nowhere = "sandcell:nowhere";
      const module = `${code}\nimport "${nowhere}";`;
      await import(`data:application/typescript;charset=utf-8,${encodeURIComponent(module)}`);
    } catch (error) {
      const text = String(error?.message ?? error).replace(/\n?\s+at data:[^]*$/, "");
      if (text.includes("sandcell:nowhere")) return;
      const [, name, value] = /^(?:(\w*Error): )?([^]*)$/.exec(text);
      const ename = name ?? "Error";
      await broadcast("error", { ename, evalue: value, traceback: [`${ename}: ${value}`] });
    }
  };

  const close = async (marker, code) => {
    try {
      if (code !== null) await explain(code);
    } finally {
      const data = { "application/vnd.sandcell.end": marker };
      await broadcast("display_data", { data, metadata: {}, transient: {} });
    }
  };
  Object.defineProperty(globalThis, ours, { value: Object.freeze({ close }) });
})();
