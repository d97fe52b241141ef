// What a program does with E2B's JavaScript client, unmodified. Address and key come from E2B's own variables.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { Sandbox } from '@e2b/code-interpreter';

const require = createRequire(import.meta.url);
const verdicts = {};
async function step(row, run) {
  try {
    await run();
    verdicts[row] = 'works';
  } catch (error) {
    verdicts[row] = `${error.stack}`;
  }
}

const sandbox = await Sandbox.create({ envs: { A: '1' }, metadata: { purpose: 'javascript' }, timeoutMs: 600_000 });

await step('create: lifetime, metadata, list, connect', async () => {
  const info = await sandbox.getInfo();
  assert.equal(info.metadata.purpose, 'javascript');
  await sandbox.setTimeout(1_200_000);
  assert.ok((await sandbox.getInfo()).endAt > info.endAt);
  const again = await Sandbox.connect(sandbox.sandboxId);
  assert.equal((await again.runCode('1 + 1')).text, '2');
  const listed = await Sandbox.list({ query: { metadata: { purpose: 'javascript' } } }).nextItems();
  assert.ok(listed.some((each) => each.sandboxId === sandbox.sandboxId));
  assert.ok(await sandbox.isRunning());
});

await step('run_code: state, output as it comes, results, errors', async () => {
  const seen = [];
  await sandbox.runCode('x = 20');
  const done = await sandbox.runCode("print('out'); x + 1", { onStdout: (message) => seen.push(message.line) });
  assert.deepEqual([done.text, done.logs.stdout, seen], ['21', ['out\n'], ['out\n']]);
  assert.equal((await sandbox.runCode('1/0')).error.name, 'ZeroDivisionError');
  const env = await sandbox.runCode("import os; print(os.environ['A'], os.environ['B'])", { envs: { B: '2' } });
  assert.deepEqual(env.logs.stdout, ['1 2\n']);
});

await step('contexts: names of their own, directories, restart, remove', async () => {
  const context = await sandbox.createCodeContext({ cwd: '/tmp' });
  assert.equal((await sandbox.runCode('x', { context })).error.name, 'NameError');
  assert.equal((await sandbox.runCode('import os; os.getcwd()', { context })).text, '/tmp');
  assert.ok((await sandbox.listCodeContexts()).some((each) => each.id === context.id));
  await sandbox.restartCodeContext(context);
  await sandbox.removeCodeContext(context);
});

await step('languages: JavaScript keeps state, bash', async () => {
  await sandbox.runCode('const y = 3', { language: 'js' });
  assert.equal((await sandbox.runCode('y + 1', { language: 'js' })).text, '4');
});

await step('files: write, read, list, info, rename, remove, several at once', async () => {
  await sandbox.files.write('notes.txt', 'hello');
  assert.equal(await sandbox.files.read('/home/user/notes.txt'), 'hello');
  await sandbox.files.write([{ path: 'd/1', data: '1' }, { path: 'd/2', data: '2' }]);
  assert.deepEqual((await sandbox.files.list('d')).map((each) => each.name).sort(), ['1', '2']);
  await sandbox.files.rename('d/1', 'moved');
  await sandbox.files.remove('d');
  assert.ok(!(await sandbox.files.exists('d')));
});

await step('files: a directory watched', async () => {
  await sandbox.files.makeDir('watched');
  let watching;
  const seen = new Promise((resolve) => {
    watching = sandbox.files.watchDir('watched', (event) => resolve(event.name));
  });
  await watching;
  await sandbox.files.write('watched/new', 'content');
  assert.match(await seen, /new/);
  await (await watching).stop();
});

await step('files: signed addresses for download and upload', async () => {
  const answer = await fetch(await sandbox.downloadUrl('notes.txt', { useSignatureExpiration: 120_000 }));
  assert.equal(await answer.text(), 'hello');
});

await step('commands: output, exit codes, directory, variables, timeout', async () => {
  const done = await sandbox.commands.run('echo $A $B; pwd; echo bad >&2', { envs: { B: '2' }, cwd: '/tmp' });
  assert.deepEqual([done.stdout, done.stderr, done.exitCode], ['1 2\n/tmp\n', 'bad\n', 0]);
  await assert.rejects(sandbox.commands.run('exit 7'), (error) => error.exitCode === 7);
});

await step('commands: in the background, stdin, list, connect, kill', async () => {
  const handle = await sandbox.commands.run('cat', { background: true, stdin: true });
  await sandbox.commands.sendStdin(handle.pid, 'a line\n');
  assert.ok((await sandbox.commands.list()).some((each) => each.pid === handle.pid));
  assert.ok(await sandbox.commands.kill(handle.pid));
  await assert.rejects(handle.wait());
  let written = '';
  const terminal = await sandbox.pty.create({
    cols: 100,
    rows: 30,
    onData: (data) => {
      written += Buffer.from(data).toString();
    },
  });
  await sandbox.pty.sendInput(terminal.pid, Buffer.from('stty size; exit\n'));
  await terminal.wait();
  assert.match(written, /30 100/);
});

const stateOf = async (box) => (await box.getInfo()).state;

await step('pause, resume by connect, variables and files', async () => {
  await sandbox.runCode("kept = {'a': [1, 2]}; open('kept.txt', 'w').write('of before')");
  await sandbox.pause();
  assert.equal(await stateOf(sandbox), 'paused');
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 600_000 });
  assert.deepEqual([again.sandboxId, await stateOf(again)], [sandbox.sandboxId, 'running']);
  assert.equal((await again.runCode("kept['a'], open('kept.txt').read()")).text, "([1, 2], 'of before')");
});

await step('snapshots: create, list, begin from, delete; forks', async () => {
  await sandbox.runCode("told = 'first'");
  const snapshot = await sandbox.createSnapshot({ name: 'tried' });
  await sandbox.runCode("told = 'second'");
  const listed = await Sandbox.listSnapshots({ sandboxId: sandbox.sandboxId }).nextItems();
  assert.deepEqual(listed.map((each) => each.snapshotId), [snapshot.snapshotId]);
  const begun = [await Sandbox.create('tried', { timeoutMs: 600_000 })];
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true);
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false);
  begun.push(...(await sandbox.fork({ timeoutMs: 600_000 })));
  for (const [box, told] of [[begun[0], 'first'], [begun[1], 'second']]) assert.equal((await box.runCode('told')).text, told);
  await Promise.all(begun.map((each) => each.kill()));
});

await step('auto-pause at the end of its time', async () => {
  const box = await Sandbox.create({ timeoutMs: 600_000, lifecycle: { onTimeout: 'pause' } });
  try {
    await box.runCode('kept = 42');
    await box.setTimeout(1_000);
    const until = Date.now() + 120_000;
    while ((await stateOf(box)) !== 'paused' && Date.now() < until) await new Promise((go) => setTimeout(go, 200));
    assert.equal(await stateOf(box), 'paused');
    const again = await box.connect({ timeoutMs: 600_000 });
    assert.equal((await again.runCode('kept')).text, '42');
  } finally {
    await box.kill();
  }
});

await step('kill', async () => {
  assert.equal(await sandbox.kill(), true);
  assert.equal(await sandbox.isRunning(), false);
});

const { version } = require('./node_modules/@e2b/code-interpreter/package.json');
console.log(JSON.stringify({ client: `@e2b/code-interpreter ${version}`, steps: verdicts }));
