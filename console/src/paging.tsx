// Which rows of how many are shown, and the way to others.

import type { ComponentChildren } from "preact";

interface PagingProps { from: number; shown: number; of: number; more?: boolean; onPage: (step: number) => void; children?: ComponentChildren }

export function Paging({ from, shown, of, more, onPage, children }: PagingProps) {
  return (
    <p class="row">
      <span role="status">{of === 0 ? "No rows" : `Rows ${(from + 1).toLocaleString()} to ${(from + shown).toLocaleString()} of ${of.toLocaleString()}`}{more && " and more, which the file has"}{children}</span>
      <button type="button" disabled={from === 0} onClick={() => onPage(-1)}>Earlier</button>
      <button type="button" disabled={from + shown >= of} onClick={() => onPage(1)}>Later</button>
    </p>
  );
}
