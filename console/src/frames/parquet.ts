// The document in which Parquet files are read: what a sandbox wrote is decoded where nothing of this page can be got at. It
// shows nothing itself. It asks the page around it for parts of the file, and answers with rows of text.

import { decompress } from "fzstd";
import { parquetMetadataAsync, parquetReadObjects, parquetSchema, type AsyncBuffer, type FileMetaData, type SchemaTree } from "hyparquet";
// By their files: together with WebAssembly, which the policy of this document forbids, the package cannot be loaded.
import { decompressBrotli } from "hyparquet-compressors/src/brotli.js";
import { gunzip } from "hyparquet-compressors/src/gzip.js";
import { decompressLz4, decompressLz4Raw } from "hyparquet-compressors/src/lz4.js";

const MOST_COLUMNS = 100;
const MOST_CHARACTERS = 300;
/** Of the file's end, read at once; metadata are longer in files of many row groups, and then asked for. */
const END_BYTES = 1 << 16;

const COMPRESSORS = {
  GZIP: (input: Uint8Array, length: number) => gunzip(input, new Uint8Array(length)),
  BROTLI: decompressBrotli, ZSTD: (input: Uint8Array) => decompress(input), LZ4: decompressLz4, LZ4_RAW: decompressLz4Raw,
};

const tell = (message: unknown) => parent.postMessage(message, "*");
const waiting = new Map<number, { take: (part: ArrayBuffer) => void; fail: (error: Error) => void }>();
let asked = 0;
let file: (AsyncBuffer & { metadata?: FileMetaData }) | null = null;

function open(size: number): AsyncBuffer {
  return {
    byteLength: size,
    slice: (start, end = size) => new Promise((take, fail) => {
      asked += 1;
      waiting.set(asked, { take, fail });
      tell({ part: asked, start, end });
    }),
  };
}

/** The type as the file has it: what its writer meant, else how it is stored. */
function typeOf({ children, element }: SchemaTree): string {
  const { logical_type: meant, converted_type: old, type } = element;
  if (children.length > 0) return (meant?.type ?? old ?? "struct").toLowerCase();
  return (meant?.type ?? old ?? type ?? "").toLowerCase();
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = value instanceof Date ? dateOf(value) : value instanceof Uint8Array ? `${value.length} bytes`
    : typeof value === "object" ? JSON.stringify(value, (_, each) => (typeof each === "bigint" ? String(each) : each)) : String(value);
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}

function dateOf(date: Date): string {
  return Number.isNaN(date.getTime()) ? "no date" : date.toISOString().replace("T00:00:00.000Z", "").replace(/\.000Z$/, "Z");
}

async function show(first: number, count: number): Promise<void> {
  if (!file) return;
  file.metadata ??= await parquetMetadataAsync(file, { initialFetchSize: END_BYTES });
  const all = parquetSchema(file.metadata).children;
  const columns = all.slice(0, MOST_COLUMNS).map((each) => ({ name: String(each.element.name), type: typeOf(each) }));
  const total = Number(file.metadata.num_rows);
  const rows = columns.length === 0 || total === 0 ? [] : await parquetReadObjects({
    file, metadata: file.metadata, columns: columns.map(({ name }) => name), rowStart: first, rowEnd: Math.min(first + count, total), compressors: COMPRESSORS,
  });
  tell({ rows: rows.map((row) => columns.map(({ name }) => textOf(row[name]))), columns, first, total, wide: all.length });
}

addEventListener("message", async ({ source, data }) => {
  if (source !== parent || data === null || typeof data !== "object") return;
  if (typeof data.size === "number") file = open(data.size);
  const part = waiting.get(data.part);
  if (part) {
    waiting.delete(data.part);
    if (data.content instanceof ArrayBuffer) part.take(data.content);
    else part.fail(new Error("refused"));
  }
  if (typeof data.first !== "number") return;
  try {
    await show(data.first, data.count);
  } catch (error) {
    tell({ problem: String((error as Error)?.message ?? error).slice(0, 300) });
  }
});
tell({ ready: true });
