// What becomes of shell commands: how one in the background is, and the stop of one that runs.

import { useState } from "preact/hooks";
import { Problem, useAct, useAnswer } from "./answers";
import { ask, type Execution } from "./api";
import { Exit } from "./code";
import { Outputs } from "./outputs";
import { duration } from "./time";

const LOOK_SECONDS = 2;

interface TaskAnswer { status: "running" | "done" | "timeout" | "stopped" | "lost"; stdout: string; stderr: string; exit_code: number | null; duration_seconds: number }

const ENDS: Record<TaskAnswer["status"], string> = {
  running: "Runs in the background", done: "Ran in the background", timeout: "Ran in the background into its time limit",
  stopped: "Ran in the background, and was stopped", lost: "Ran in the background until its sandbox was gone",
};

/** A command in the background: its record says that it began and how it ended, the sandbox how it is until then. */
export function Task({ of: { session_id: session, task, why }, live, may }: { of: Execution; live: boolean; may: boolean }) {
  if (why) return <p class="hint">{why[0]!.toUpperCase() + why.slice(1)}.</p>;
  if (!live) return <p class="hint">It was started in the background. What became of it is not on record.</p>;
  return <LiveTask address={`/v1/sessions/${session}/tasks/${task}`} may={may} />;
}

function LiveTask({ address, may }: { address: string; may: boolean }) {
  const [over, setOver] = useState(false);
  const { found, problem, again } = useAnswer(async (signal) => {
    const answer = await ask<TaskAnswer>("GET", address, undefined, signal);
    setOver(answer.status !== "running");
    return answer;
  }, [address], over ? 0 : LOOK_SECONDS);
  if (!found) return problem ? <p class="hint">It was started in the background. {problem}</p> : <p class="hint">It was started in the background.</p>;
  const streams = (["stdout", "stderr"] as const).filter((name) => found[name]);
  return (
    <>
      <Outputs outputs={streams.map((name) => ({ output_type: "stream", name, text: found[name] }))} coming={!over} />
      <p class="hint">{ENDS[found.status]}{found.duration_seconds > 0 && `, ${duration(found.duration_seconds * 1000)}`}
        {" "}<Exit code={found.exit_code} /> {!over && may && <StopButton method="DELETE" address={address} onStopped={again} />}</p>
    </>
  );
}

/** Ends a command with all that it has started. */
export function StopButton({ method, address, onStopped }: { method: string; address: string; onStopped?: () => void }) {
  const { doing, failed, act } = useAct();
  return (
    <>
      <button type="button" class="quiet" disabled={doing} onClick={async () => { if (await act(() => ask(method, address))) onStopped?.(); }}>Stop it</button>
      <Problem text={failed} />
    </>
  );
}
