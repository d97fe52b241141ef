declare module "plotly.js-cartesian-dist-min" {
  const Plotly: {
    react(place: HTMLElement, data: unknown[], layout: unknown, config: unknown): Promise<unknown>;
    PlotSchema: { get(): { traces?: Record<string, unknown> } };
  };
  export default Plotly;
}
declare module "vega-interpreter" { export const expressionInterpreter: unknown }
