// Figures of Plotly, from their JSON alone: lines, bars, histograms, boxes, heat maps and the like. Those that need WebGL,
// maps or data from elsewhere are in none of what ships with the console.

import Plotly from "plotly.js-cartesian-dist-min";
import { listen } from "./talk";

interface Figure { data?: Record<string, unknown>[]; layout?: Record<string, unknown>; config?: Record<string, unknown> }

const CONFIG = { responsive: true, displaylogo: false, showLink: false, modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };
/** Drawn without WebGL they look the same. */
const FLAT: Record<string, string> = { scattergl: "scatter", heatmapgl: "heatmap" };

listen(async ({ figure }) => {
  const { data, layout } = (figure ?? {}) as Figure;
  const traces = (Array.isArray(data) ? data : []).map((each) => ({ ...each, type: FLAT[String(each["type"])] ?? each["type"] }));
  const known = new Set(Object.keys(Plotly.PlotSchema.get().traces ?? {}));
  const strange = traces.find((each) => each.type !== undefined && !known.has(String(each.type)));
  if (strange) throw new Error(`traces of the type ${String(strange.type)} show in JupyterLab, not here.`);
  await Plotly.react(document.querySelector<HTMLElement>("#figure")!, traces, { ...layout, autosize: true }, CONFIG);
});
