// The document in which Parquet files are read: what a sandbox wrote is decoded where nothing of this page can be got at. It
// shows nothing itself. It asks the page around it for parts of the file, and answers with rows of text.

import { decompress } from "fzstd";
import { parquetMetadataAsync, parquetReadObjects, parquetSchema, snappyUncompress, type AsyncBuffer, type FileMetaData, type SchemaTree } from "hyparquet";
import { parquetHeader } from "hyparquet/src/column.js";
// By their files: together with WebAssembly, which the policy of this document forbids, the package cannot be loaded.
import { decompressBrotli } from "hyparquet-compressors/src/brotli.js";
import { gunzip } from "hyparquet-compressors/src/gzip.js";
import { decompressLz4, decompressLz4Raw } from "hyparquet-compressors/src/lz4.js";

const MOST_COLUMNS = 100;
const MOST_CHARACTERS = 300;
/** Of the file's end, read at once; metadata are longer in files of many row groups, and then asked for. */
const END_BYTES = 1 << 16;

/** Of what a file says of itself, before memory is taken for it: a page, and all that are unpacked or nested in a page of rows. */
const MOST_PAGE_VALUES = 4_000_000;
const MOST_NESTED_VALUES = 20_000_000;
const MOST_PAGE_BYTES = 64_000_000;
const MOST_UNPACKED_BYTES = 512_000_000;

let unpacked = 0;
/** What has unpacked it never writes beyond the length that its page says. */
const bounded = (unpack: (input: Uint8Array, length: number) => Uint8Array) => (input: Uint8Array, length: number) => {
  unpacked += length;
  if (!(length >= 0 && length <= MOST_PAGE_BYTES) || unpacked > MOST_UNPACKED_BYTES) throw new Error("it unpacks to more than is read here");
  return unpack(input, length);
};
const COMPRESSORS = {
  SNAPPY: bounded((input, length) => { const output = new Uint8Array(length); snappyUncompress(input, output); return output; }),
  GZIP: bounded((input, length) => gunzip(input, new Uint8Array(length))),
  BROTLI: bounded(decompressBrotli), ZSTD: bounded((input, length) => decompress(input, new Uint8Array(length))),
  LZ4: bounded(decompressLz4), LZ4_RAW: bounded(decompressLz4Raw),
};

const tell = (message: unknown) => parent.postMessage(message, "*");
const waiting = new Map<number, { take: (part: ArrayBuffer) => void; fail: (error: Error) => void }>();
let asked = 0;
let file: (AsyncBuffer & { metadata?: FileMetaData }) | null = null;

function open(size: number): AsyncBuffer {
  return {
    byteLength: size,
    slice: async (start, end = size) => {
      const content = await new Promise<ArrayBuffer>((take, fail) => {
        asked += 1;
        waiting.set(asked, { take, fail });
        tell({ part: asked, start, end });
      });
      if (file?.metadata) look(file.metadata, start, content);
      return content;
    },
  };
}

let nested = 0;
/** How many values the pages in a part say that they have: what decodes them makes a list of that length first. */
function look(metadata: FileMetaData, start: number, content: ArrayBuffer): void {
  for (const { meta_data: about } of metadata.row_groups.flatMap((each) => each.columns)) {
    if (!about) continue;
    const first = Number(about.dictionary_page_offset ?? about.data_page_offset) - start;
    const end = first + Number(about.total_compressed_size);
    if (!(first >= 0 && end <= content.byteLength)) continue;
    const reader = { view: new DataView(content), offset: first };
    while (reader.offset < end - 1) {
      const { compressed_page_size: length, data_page_header: one, data_page_header_v2: other, dictionary_page_header: words } = parquetHeader(reader);
      const values = Number(one?.num_values ?? other?.num_values ?? words?.num_values ?? 0);
      nested += about.path_in_schema.length > 1 ? values : 0;
      if (!(length >= 0)) throw new Error("a page has no length");
      if (!(values >= 0 && values <= MOST_PAGE_VALUES) || nested > MOST_NESTED_VALUES) throw new Error("a page says that it has more values than are read here");
      reader.offset += length;
    }
  }
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
  unpacked = nested = 0;
  const total = Number(file.metadata.num_rows);
  const rows = columns.length === 0 || total === 0 ? [] : await parquetReadObjects({
    file, metadata: file.metadata, columns: columns.map(({ name }) => name), rowStart: first, rowEnd: Math.min(first + count, total), compressors: COMPRESSORS,
  });
  const texts = rows.map((row) => columns.map(({ name }) => textOf(row[name])));
  tell({ rows: texts, columns: columns.map(({ name, type }) => ({ name: textOf(name), type: textOf(type) })), first, total, wide: all.length });
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
