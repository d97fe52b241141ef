// What LibreChat does with its tools, unmodified: code and bash, a chat's files from call to call, files of its own.
// LIBRECHAT_CODE_BASEURL has the token in it, since the tools send none; CODE_KEY is the same token.

import assert from 'node:assert/strict';
import { AIMessage } from '@langchain/core/messages';
import {
  createBashExecutionTool,
  createCodeExecutionTool,
  createProgrammaticToolCallingTool,
  ToolNode,
} from '@librechat/agents';

const base = process.env.LIBRECHAT_CODE_BASEURL;
const verdicts = {};
async function step(row, run) {
  try {
    await run();
    verdicts[row] = 'works';
  } catch (error) {
    verdicts[row] = `${error.stack}`;
  }
}
const call = (tool, args, more = {}) => tool.invoke({ type: 'tool_call', id: 'c', name: tool.name, args, ...more });
async function server(path, options = {}) {
  const answer = await fetch(`${base}${path}`, options);
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer;
}

const code = createCodeExecutionTool();
const bash = createBashExecutionTool();

await step('code: output, nothing printed, an error', async () => {
  const told = await call(code, { lang: 'py', code: "import sys; print('out'); print('err', file=sys.stderr)" });
  assert.equal(told.content, 'stdout:\nout\n\nstderr:\nerr');
  assert.match((await call(code, { lang: 'py', code: 'x = 1' })).content, /stdout: Empty/);
  assert.match((await call(code, { lang: 'py', code: '1/0' })).content, /ZeroDivisionError/);
});

await step('code: arguments, languages', async () => {
  const told = await call(code, { lang: 'js', code: 'console.log(process.argv.slice(2).join())', args: ['a', 'b c'] });
  assert.match(told.content, /a,b c/);
  assert.match((await call(code, { lang: 'ts', code: 'const x: number = 2; console.log(x)' })).content, /stdout:\n2/);
});

await step('code: a language that there is not, a caller that is not known', async () => {
  await assert.rejects(call(code, { lang: 'cobol', code: 'x' }));
  const stranger = createCodeExecutionTool({ baseUrl: base.replace(process.env.CODE_KEY, 'sandcell_wrong') });
  await assert.rejects(call(stranger, { lang: 'py', code: '1' }), /not authorized/);
});

await step('a key in the headers that a host gives', async () => {
  const baseUrl = base.replace(`${process.env.CODE_KEY}/`, '');
  const keyed = createCodeExecutionTool({ baseUrl, authHeaders: () => ({ 'X-API-Key': process.env.CODE_KEY }) });
  assert.match((await call(keyed, { lang: 'bash', code: 'echo keyed' })).content, /keyed/);
});

await step("a chat: files stay from call to call, by ToolNode's own references", async () => {
  const sessions = new Map();
  const node = new ToolNode({ tools: [code, bash], sessions });
  const ask = async (name, args) => {
    const told = await node.invoke({ messages: [new AIMessage({ content: '', tool_calls: [{ id: name, name, args }] })] });
    return told.messages[0];
  };
  const made = await ask(code.name, { lang: 'py', code: "open('/mnt/data/plot.png', 'wb').write(b'png')\nprint('made')" });
  assert.match(made.content, /1 persisted file\(s\).*including 1 image/);
  assert.match((await ask(bash.name, { command: 'cat /mnt/data/plot.png' })).content, /png/);
  await ask(bash.name, { command: 'echo more >> plot.png; mkdir d; echo 1 > d/x.csv' });
  const { files } = sessions.get('execute_code');
  assert.deepEqual(files.map((each) => each.name).sort(), ['d/x.csv', 'plot.png']);
  const got = await server(`/download/${files[0].storage_session_id}/${files[0].id}?kind=user&id=ann`);
  assert.ok((await got.text()).length > 0);
});

await step('files of a chat: upload, freshness, in a run, download', async () => {
  const form = new FormData();
  form.append('kind', 'user');
  form.append('id', 'ann');
  form.append('file', new Blob(['a,b\n1,2\n']), 'in.csv');
  const { message, storage_session_id, files } = await (await server('/upload', { method: 'POST', body: form })).json();
  assert.equal(message, 'success');
  const id = files[0].fileId;
  const shown = await (await server(`/sessions/${storage_session_id}/objects/${id}?kind=user&id=ann`)).json();
  assert.ok(Date.now() - new Date(shown.lastModified) < 23 * 3600 * 1000);
  const input = { id, resource_id: 'ann', storage_session_id, name: 'in.csv', kind: 'user' };
  const told = await call(code, { lang: 'py', code: "print(open('in.csv').read())" }, { _injected_files: [input] });
  assert.match(told.content, /a,b\n1,2/);
  const full = await (await server(`/files/${storage_session_id}?detail=full`)).json();
  assert.equal(full[0].metadata['original-filename'], 'in.csv');
});

await step('skill files: a batch, read where they were put', async () => {
  const form = new FormData();
  form.append('kind', 'skill');
  form.append('id', 'skill_1');
  form.append('version', '1');
  form.append('read_only', 'true');
  form.append('file', new Blob(['# Skill']), 'skill/SKILL.md');
  form.append('file', new Blob(['print(5)']), 'skill/run.py');
  const told = await (await server('/upload/batch', { method: 'POST', body: form })).json();
  assert.deepEqual([told.succeeded, told.failed], [2, 0]);
  const inputs = told.files.map(({ fileId, filename }) => ({
    id: fileId, name: filename, storage_session_id: told.storage_session_id, kind: 'skill', version: 1, resource_id: 'skill_1',
  }));
  assert.match((await call(bash, { command: 'python3 skill/run.py' }, { _injected_files: inputs })).content, /stdout:\n5/);
});

await step('programmatic: without tools a plain run; with tools said to be unsupported', async () => {
  const tool = createProgrammaticToolCallingTool();
  const toolDefs = [{ name: 'get_x', description: '', parameters: { type: 'object', properties: {} } }];
  const toolMap = new Map([['get_x', { name: 'get_x', invoke: async () => 1 }]]);
  const plain = await call(tool, { code: 'print(7)', tool_manifest: [] }, { toolDefs, toolMap });
  assert.match(plain.content, /stdout:\n7/);
  const asked = call(tool, { code: 'print(await get_x())', tool_manifest: ['get_x'] }, { toolDefs, toolMap });
  await assert.rejects(asked, /not supported by the selected environment/);
});

console.log(JSON.stringify({ steps: verdicts }));
process.exit(0);
