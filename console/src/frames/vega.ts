// Charts of Vega and Vega-Lite (Altair's), from their JSON alone. Expressions in it are interpreted, never made into code;
// data that it names by an address is not asked for: the policy of this document lets nothing through.

import { parse, View, type Spec } from "vega";
import { expressionInterpreter } from "vega-interpreter";
import { compile, type TopLevelSpec } from "vega-lite";
import { Handler } from "vega-tooltip";
import { listen } from "./talk";

listen(async ({ figure }) => {
  const given = figure as { $schema?: unknown };
  const lite = !/\/vega\/v\d/.test(String(given.$schema ?? ""));
  // Where a chart does not say how it is fitted it is as wide as its marks, whatever the window.
  const spec = lite ? compile(given as TopLevelSpec).spec : given as Spec;
  const place = document.querySelector<HTMLElement>("#figure")!;
  place.style.padding = "4px";
  const view = new View(parse(spec, undefined, { ast: true }), {
    expr: expressionInterpreter, renderer: "svg", container: place, hover: true, tooltip: new Handler({ styleId: "tooltip" }).call, logLevel: 0,
  } as ConstructorParameters<typeof View>[1]);
  await view.runAsync();
});
