// LibreChat's door by its own package: `client.mjs DOOR URL TOKEN`; a command a line, seconds as answer. There is no
// create on the wire: a run with a new conversation's hint makes the sandbox.

import readline from 'node:readline';

const [url, token] = process.argv.slice(3);
process.env.LIBRECHAT_CODE_BASEURL = `${url}/librechat/${token}/v1`;
const { createCodeExecutionTool } = await import('@librechat/agents');
const tool = createCodeExecutionTool({ statefulSessions: true });
let chat = 0;
const run = async () => {
  const config = { type: 'tool_call', id: 'c', name: tool.name, _runtime_session_hint: `${process.pid} ${chat}` };
  const told = await tool.invoke({ ...config, args: { lang: 'py', code: 'print(1+1)' } });
  if (told.content !== 'stdout:\n2') throw new Error(told.content);
};
console.log('ready');
for await (const line of readline.createInterface({ input: process.stdin })) {
  if (line.trim() === 'create') chat += 1;
  const began = performance.now();
  await run();
  console.log((performance.now() - began) / 1000);
}
process.exit(0);
