// What a requested restart looks like to the library of JupyterLab and VS Code, which shows that a kernel "appears to
// have died" at the state `autorestarting`.
//
// Arguments: the service's URL, its owner's token, the session. Prints the states seen and what ran afterwards.

import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const fetch = require('node-fetch');
const WebSocket = require('ws');
const { KernelManager, ServerConnection } = require('@jupyterlab/services');

const [url, token, id] = process.argv.slice(2);

function until(kernel, ready) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`still ${kernel.status}`)), 120_000);
    const look = () => {
      if (ready()) {
        clearTimeout(timer);
        resolve();
      }
    };
    kernel.statusChanged.connect(look);
    look();
  });
}

async function run(kernel, code) {
  let text = '';
  const future = kernel.requestExecute({ code });
  future.onIOPub = (message) => {
    text += message.header.msg_type === 'stream' ? message.content.text : '';
  };
  const reply = await future.done;
  return [reply.content.status, text];
}

async function main() {
  const serverSettings = ServerConnection.makeSettings({
    baseUrl: `${url}/`,
    appUrl: '',
    wsUrl: `${url.replace(/^http/, 'ws')}/`,
    token,
    appendToken: true,
    WebSocket,
    fetch,
    Request: fetch.Request,
    Headers: fetch.Headers,
  });
  const manager = new KernelManager({ serverSettings });
  await manager.ready;
  const kernel = manager.connectTo({ model: { id, name: 'python' } });
  await kernel.info;
  const states = [];
  kernel.statusChanged.connect((_, state) => states.push(state));
  const seen = { before: await run(kernel, 'mine = 1') };

  await kernel.restart();
  seen.own = await run(kernel, "print('mine' in globals())");

  states.push('by the agent');
  const headers = { Authorization: `Bearer ${token}` };
  await fetch(`${url}/v1/sessions/${id}/restart`, { method: 'POST', headers });
  await until(kernel, () => states.indexOf('starting', states.indexOf('by the agent')) > 0 && kernel.status === 'idle');
  seen.agents = await run(kernel, "print('theirs' in globals())");

  states.push('by a death');
  const died = await run(kernel, 'import os; os.kill(os.getpid(), 9)');
  await until(kernel, () => states.indexOf('autorestarting', states.indexOf('by a death')) > 0);
  seen.died = died[0];
  seen.states = states;
  console.log(JSON.stringify(seen));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
