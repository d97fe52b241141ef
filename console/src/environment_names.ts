// What people call an environment. Its id is what records of sessions have: of one that a principal made it is the name and
// ten characters, of the host's the name.

import { all, useAnswer } from "./answers";
import type { Environment } from "./environments";

const LIKE_MADE = /-[a-zA-Z0-9]{10}$/;

/** Names by ids; one that is there no more, or is another principal's, has its id. They are asked for where an id needs it. */
export function useEnvironmentNames(ids: string[]): (id: string) => string {
  const made = [...new Set(ids.filter((each) => LIKE_MADE.test(each)))].sort().join();
  const { found } = useAnswer(
    async (signal) => new Map(made ? (await all<Environment>("/v1/environments?limit=200", signal)).map(({ id, name }) => [id, name]) : []), [], 0, made);
  return (id) => found?.get(id) ?? id;
}
