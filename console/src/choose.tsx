// Which session to hold against this one: its fork or its origin first.

import { useEffect, useState } from "preact/hooks";
import { Dialog, Problem, useAnswer } from "./answers";
import { ask, type Page, type Session } from "./api";

export function Choose({ session, onClose }: { session: Session; onClose: () => void }) {
  const [chosen, setChosen] = useState("");
  const { found, problem, again } = useAnswer(async (signal) => {
    const page = await ask<Page<Session>>("GET", "/v1/sessions?limit=200", undefined, signal);
    const others = page.items.filter((each) => each.id !== session.id);
    const related = (each: Session) => Number(each.from?.session === session.id || session.from?.session === each.id);
    return others.sort((one, other) => related(other) - related(one));
  }, [session.id]);
  useEffect(() => { if (found?.[0] && !chosen) setChosen(found[0].id); }, [found]);
  const go = (event: Event) => {
    event.preventDefault();
    location.hash = `#/compare/${session.id}/${chosen}`;
  };
  return (
    <Dialog title="Compare with another session" onClose={onClose}>
      <form onSubmit={go}>
        <Problem text={problem} again={again} />
        {found?.length === 0 && <p>You have no other session. <b>More</b>, <b>Fork it as it is now</b> makes one to compare with.</p>}
        {found && found.length > 0 && (
          <>
            <label for="compare-with">The other session, of your newest 200</label>
            <select id="compare-with" value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
              {found.map((each) => (
                <option key={each.id} value={each.id}>{each.name} ({each.id.slice(0, 8)}){each.from?.session === session.id ? ", a fork of this one" : session.from?.session === each.id ? ", which this one was forked from" : ""}</option>
              ))}
            </select>
          </>
        )}
        <div class="buttons">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="main" disabled={!chosen}>Compare</button>
        </div>
      </form>
    </Dialog>
  );
}
