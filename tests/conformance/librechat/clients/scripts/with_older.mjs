// What LibreChat of 2025 does with its tool, unmodified: a key in a header, files asked for by the session's id.

import assert from 'node:assert/strict';
import { createCodeExecutionTool } from '@librechat/agents';

const base = process.env.LIBRECHAT_CODE_BASEURL;
const headers = { 'X-API-Key': process.env.LIBRECHAT_CODE_API_KEY, 'User-Id': 'ann' };
const verdicts = {};
async function step(row, run) {
  try {
    await run();
    verdicts[row] = 'works';
  } catch (error) {
    verdicts[row] = `${error.stack}`;
  }
}
const call = (tool, args) => tool.invoke({ type: 'tool_call', id: 'c', name: tool.name, args });
const code = createCodeExecutionTool();

await step('output, errors', async () => {
  assert.match((await call(code, { lang: 'py', code: "print('out')" })).content, /stdout:\nout/);
  assert.match((await call(code, { lang: 'py', code: '1/0' })).content, /ZeroDivisionError/);
});

await step('files of an earlier session, by its id', async () => {
  const made = await call(code, { lang: 'py', code: "open('/mnt/data/a.txt', 'w').write('kept')" });
  assert.match(made.content, /\/mnt\/data\/a\.txt/);
  const { session_id, files } = made.artifact;
  const again = await call(code, { lang: 'py', code: "print(open('a.txt').read())", session_id });
  assert.match(again.content, /stdout:\nkept/);
  const got = await fetch(`${base}/download/${session_id}/${files[0].id}`, { headers });
  assert.equal(await got.text(), 'kept');
});

await step('an upload, given to a tool with the chat', async () => {
  const form = new FormData();
  form.append('entity_id', 'agent_1');
  form.append('file', new Blob(['1,2']), 'in.csv');
  const told = await (await fetch(`${base}/upload`, { method: 'POST', body: form, headers })).json();
  assert.equal(told.message, 'success');
  const files = [{ session_id: told.session_id, id: told.files[0].fileId, name: told.files[0].filename }];
  const tool = createCodeExecutionTool({ files, user_id: 'ann' });
  assert.match((await call(tool, { lang: 'py', code: "print(open('/mnt/data/in.csv').read())" })).content, /1,2/);
  const listed = await (await fetch(`${base}/files/${told.session_id}?detail=summary`, { headers })).json();
  assert.ok(listed.find((each) => each.name.startsWith(`${told.session_id}/${told.files[0].fileId}`)).lastModified);
});

await step('a wrong key', async () => {
  const tool = createCodeExecutionTool({ apiKey: 'wrong' });
  await assert.rejects(call(tool, { lang: 'py', code: '1' }), /401/);
});

console.log(JSON.stringify({ steps: verdicts }));
process.exit(0);
