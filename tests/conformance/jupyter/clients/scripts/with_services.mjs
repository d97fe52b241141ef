// What the Jupyter extension of VS Code does to join a live kernel, with the library that it embeds.
//
// Arguments: the service's URL, an attach token, the session. Prints a JSON object: each step with what was seen.

import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const fetch = require('node-fetch');
const WebSocket = require('ws');
const { KernelManager, KernelSpecAPI, KernelSpecManager, ServerConnection, SessionManager } = require('@jupyterlab/services');

const [url, token, id] = process.argv.slice(2);
const seen = {};
const COMM = `
from comm import create_comm
heard = []
channel = create_comm(target_name="person", data={}, buffers=[bytes([0, 255])])
channel.on_msg(lambda message: heard.append(message["content"]["data"]))
`;

function within(seconds, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// The extension's own sockets send the token as a header too.
class AuthorizedSocket extends WebSocket {
  constructor(address, protocols) {
    super(address, protocols, { headers: { Authorization: `token ${token}` } });
    AuthorizedSocket.last = this;
  }
}

async function run(kernel, code) {
  let text = '';
  const future = kernel.requestExecute({ code, stop_on_error: false, allow_stdin: false });
  future.onIOPub = (message) => {
    if (message.header.msg_type === 'stream') {
      text += message.content.text;
      future.printed?.();
    }
  };
  return { future, text: () => text };
}

async function main() {
  const root = await fetch(`${url}/`, { method: 'get', redirect: 'follow' });
  const tree = await fetch(`${url}/tree?`, { method: 'get', redirect: 'manual' });
  seen.password = [root.status, tree.status];

  const serverSettings = ServerConnection.makeSettings({
    baseUrl: `${url}/`,
    appUrl: '',
    wsUrl: `${url.replace(/^http/, 'ws')}/`,
    token,
    appendToken: true,
    init: { cache: 'no-store', credentials: 'same-origin' },
    WebSocket: AuthorizedSocket,
    fetch,
    Request: fetch.Request,
    Headers: fetch.Headers,
  });
  const kernelManager = new KernelManager({ serverSettings });
  const specs = new KernelSpecManager({ serverSettings });
  const sessionManager = new SessionManager({ serverSettings, kernelManager });
  await within(60, 'the kernelspecs', KernelSpecAPI.getSpecs(serverSettings)); // says why, where a manager is silent
  await within(60, 'the lists', Promise.all([kernelManager.ready, specs.ready, sessionManager.ready]));
  seen.kernelspecs = Object.keys(specs.specs.kernelspecs);
  const sessions = [...sessionManager.running()];
  seen.sessions = sessions.map((each) => ({ id: each.id, kernel: each.kernel.id, path: each.path }));

  const session = sessionManager.connectTo({ model: sessions.find((each) => each.kernel.id === id) });
  const kernel = session.kernel;
  await within(60, 'the kernel', kernel.info);
  seen.protocol = AuthorizedSocket.last.protocol;
  seen.status = kernel.connectionStatus;

  const shared = await run(kernel, 'print(agent + 1)');
  const reply = await within(60, 'the cell', shared.future.done);
  seen.shared = { status: reply.content.status, text: shared.text() };

  const long = await run(kernel, "import time\nprint('runs', flush=True)\ntime.sleep(300)");
  const printed = new Promise((resolve) => { long.future.printed = resolve; });
  await within(60, 'the first output', printed);
  await kernel.interrupt();
  const interrupted = await within(60, 'the interrupt', long.future.done);
  seen.interrupted = { status: interrupted.content.status, name: interrupted.content.ename };

  const opened = new Promise((resolve) => {
    kernel.registerCommTarget('person', (comm, message) => {
      const buffers = message.buffers.map((each) => [...new Uint8Array(each.buffer ?? each, each.byteOffset ?? 0)]);
      resolve({ buffers, told: comm.send({ answer: 42 }).done });
    });
  });
  const widget = await run(kernel, COMM);
  await within(60, 'the cell of the comm', widget.future.done);
  const { buffers, told } = await within(60, 'the comm', opened);
  await within(60, "the comm's answer", told);
  seen.buffers = buffers;
  const heard = await run(kernel, 'print(heard)');
  await within(60, 'what the comm said', heard.future.done);
  seen.heard = heard.text();
  // It has made a subshell for the comm; one that it still waits for at its end, it fails over.
  const subshell = await within(60, 'a subshell', kernel.requestCreateSubshell({}).done);
  seen.subshell = subshell.content.status;

  // What the extension does when waiting for idle times out: it deletes the session.
  await session.shutdown();
  const left = await fetch(`${url}/api/kernels/${id}`, { headers: { Authorization: `token ${token}` } });
  seen.after = { status: left.status, state: (await left.json()).execution_state };
  console.log(JSON.stringify(seen));
  process.exit(0);
}

main().catch((error) => {
  console.error(JSON.stringify(seen), error);
  process.exit(1);
});
