// What the service's host can enforce, line by line, as `sandcell doctor` says it there.

import { Problem, useAnswer } from "./answers";
import { ask, type Page } from "./api";

interface Finding { name: string; ok: boolean; detail: string; remedy: string; required: boolean }

/** What is as it should be may have advice all the same. */
function stateOf({ ok, required }: Finding) {
  if (ok) return <span class="state live">In order</span>;
  return required ? <span class="state bad">Missing</span> : <span class="state busy">Weaker</span>;
}

export function Host() {
  const { found, problem, again } = useAnswer((signal) => ask<Page<Finding>>("GET", "/v1/doctor", undefined, signal), []);
  const findings = found?.items ?? [];
  const amiss = findings.filter((each) => !each.ok).length;
  return (
    <>
      <div class="bar">
        <span class="hint" role="status">{!found && !problem ? "Looking at the host" : found && (amiss === 0 ? `All ${findings.length} are in order.` : `${amiss} of ${findings.length} are not in order.`)}</span>
        <span class="grow" />
        <button type="button" disabled={!found && !problem} onClick={again}>Look again</button>
      </div>
      <Problem text={problem} again={again} />
      {found && (
        <div class="scroll" tabIndex={0} role="group" aria-label="What was found">
          <table class="list">
            <thead><tr><th scope="col">What</th><th scope="col">State</th><th scope="col">Found</th><th scope="col">What to do</th></tr></thead>
            <tbody>
              {findings.map((each, at) => (
                <tr key={at}><th scope="row">{each.name}</th><td>{stateOf(each)}</td><td class="wrap">{each.detail}</td><td class="wrap">{each.remedy}</td></tr>
              ))}
            </tbody>
          </table>
          <p class="hint inset">Beside live sessions no sandbox is started to try it, and nothing is written into the store; <code>sandcell doctor</code>, on the host and as root, does both.</p>
        </div>
      )}
    </>
  );
}
