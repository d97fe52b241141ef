// Everything that the AWS SDK for JavaScript offers of Code Interpreter; steps as in steps.py.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import * as plane from "@aws-sdk/client-bedrock-agentcore";
import * as steering from "@aws-sdk/client-bedrock-agentcore-control";
import { NodeHttpHandler } from "@smithy/node-http-handler";

const SYSTEM = "aws.codeinterpreter.v1";
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg==";
const data = new plane.BedrockAgentCoreClient({});
const control = new steering.BedrockAgentCoreControlClient({});
const verdicts = {};
const kept = { interpreter: SYSTEM };

async function step(row, run) {
  try {
    await run();
    verdicts[row] ??= "works";
  } catch (error) {
    verdicts[row] = error.stack ?? String(error);
  }
}

async function call(name, args = {}, client = data) {
  const answer = await client.send(
    new plane.InvokeCodeInterpreterCommand({
      codeInterpreterIdentifier: kept.interpreter,
      sessionId: kept.session,
      name,
      arguments: args,
    }),
  );
  assert.equal(answer.sessionId, kept.session);
  kept.attempts = answer.$metadata.attempts;
  const results = [];
  for await (const event of answer.stream) results.push(event.result);
  assert.equal(results.length, 1);
  return results[0];
}

async function code(text, language = "python", more = {}, client = data) {
  const result = await call("executeCode", { code: text, language, ...more }, client);
  assert.equal(result.isError, false, JSON.stringify(result));
  return result.structuredContent.stdout;
}

await step("StartCodeInterpreterSession", async () => {
  const answer = await data.send(
    new plane.StartCodeInterpreterSessionCommand({
      codeInterpreterIdentifier: SYSTEM,
      name: "from Node.js",
      sessionTimeoutSeconds: 600,
    }),
  );
  assert(answer.createdAt instanceof Date && !Number.isNaN(answer.createdAt.getTime()));
  kept.session = answer.sessionId;
});

await step("GetCodeInterpreterSession", async () => {
  const answer = await data.send(
    new plane.GetCodeInterpreterSessionCommand({ codeInterpreterIdentifier: SYSTEM, sessionId: kept.session }),
  );
  assert.deepEqual([answer.name, answer.status, answer.sessionTimeoutSeconds], ["from Node.js", "READY", 600]);
});

await step("ListCodeInterpreterSessions", async () => {
  const found = [];
  let nextToken;
  do {
    const page = await data.send(
      new plane.ListCodeInterpreterSessionsCommand({
        codeInterpreterIdentifier: SYSTEM,
        status: "READY",
        maxResults: 1,
        nextToken,
      }),
    );
    found.push(...page.items.map((item) => item.sessionId));
    nextToken = page.nextToken;
  } while (nextToken);
  assert(found.includes(kept.session));
});

await step("executeCode: Python", async () => {
  await code("x = 20");
  assert.equal(await code("print(x + 1)\nprint('und ö')"), "21\nund ö");
});

await step("executeCode: clearContext", async () => {
  assert.equal(await code("print('x' in globals())", "python", { clearContext: true }), "False");
});

await step("executeCode: JavaScript", async () => {
  await code("let total = 20", "javascript");
  assert.equal(await code("console.log(total + 1)", "javascript"), "21");
});

await step("executeCode: TypeScript", async () => {
  await code("const names: string[] = ['a', 'b']", "typescript");
  assert.equal(await code("console.log(names.join('-'))", "typescript"), "a-b");
});

await step("executeCode: runtime", async () => {
  assert.equal(await code("print(1)", "python", { runtime: "python" }), "1");
  assert.equal(await code("console.log(1)", "typescript", { runtime: "deno" }), "1");
});

await step("executeCode: an error of the code", async () => {
  const result = await call("executeCode", { code: "print('hi')\n1/0", language: "python" });
  assert.equal(result.isError, true);
  assert.equal(result.content[0].text, "hi");
  assert.match(result.content[1].text, /ZeroDivisionError: division by zero/);
});

await step("executeCode: an image", async () => {
  const show = `import base64\nfrom IPython.display import Image, display\ndisplay(Image(data=base64.b64decode('${PNG}')))`;
  const result = await call("executeCode", { code: show, language: "python" });
  const images = result.content.filter((block) => block.type === "image");
  assert.deepEqual(images.map((block) => [block.mimeType, Buffer.from(block.data).toString("base64")]), [["image/png", PNG]]);
});

await step("executeCommand", async () => {
  const result = await call("executeCommand", { command: "echo hello" });
  assert.equal(result.structuredContent.stdout, "hello\r\n");
  const failed = await call("executeCommand", { command: "exit 3" });
  assert.deepEqual([failed.isError, failed.structuredContent.exitCode], [true, 3]);
});

await step("startCommandExecution", async () => {
  kept.short = (await call("startCommandExecution", { command: "true" })).structuredContent.taskId;
  kept.long = (await call("startCommandExecution", { command: "sleep 500" })).structuredContent.taskId;
});

await step("getTask", async () => {
  const until = Date.now() + 30_000;
  while ((await call("getTask", { taskId: kept.short })).structuredContent.taskStatus !== "completed") {
    assert(Date.now() < until);
    await sleep(100);
  }
  assert.equal((await call("getTask", { taskId: kept.long })).structuredContent.taskStatus, "working");
});

await step("stopTask", async () => {
  assert.equal((await call("stopTask", { taskId: kept.long })).isError, false);
  assert.equal((await call("getTask", { taskId: kept.long })).structuredContent.taskStatus, "canceled");
});

await step("writeFiles", async () => {
  const content = [
    { path: "data/é.txt", text: "ä" },
    { path: "data/a.bin", blob: new Uint8Array([0, 255]) },
  ];
  const result = await call("writeFiles", { content });
  assert.equal(result.content[0].text, "Successfully wrote all 2 files");
});

await step("readFiles", async () => {
  const [text, binary] = (await call("readFiles", { paths: ["data/é.txt", "data/a.bin"] })).content;
  assert.deepEqual([text.resource.uri, text.resource.text], ["file:///data/é.txt", "ä"]);
  assert.deepEqual([...binary.resource.blob], [0, 255]);
});

await step("listFiles", async () => {
  const links = (await call("listFiles", { directoryPath: "data" })).content.filter((b) => b.type === "resource_link");
  assert.deepEqual(links.map((link) => [link.name, link.description]).sort(), [["a.bin", "File"], ["é.txt", "File"]]);
});

await step("removeFiles", async () => {
  const result = await call("removeFiles", { paths: ["data/a.bin"] });
  assert.equal(result.content[0].text, "Successfully removed all 1 files");
});

await step("code longer than the read timeout", async () => {
  const requestHandler = new NodeHttpHandler({ socketTimeout: 3000 });
  const impatient = new plane.BedrockAgentCoreClient({ requestHandler });
  const slow = "import time\nruns = globals().get('runs', 0) + 1\ntime.sleep(5)\nprint(runs)";
  assert.equal(await code(slow, "python", {}, impatient), "1");
  assert.equal(await code("print(runs)"), "1");
  impatient.destroy();
});

await step("an answer lost on the way", async () => {
  const unlucky = new plane.BedrockAgentCoreClient({ customUserAgent: "the-first-answer-is-lost" });
  assert.equal(await code("once = globals().get('once', 0) + 1\nprint(once)", "python", {}, unlucky), "1");
  assert.equal(kept.attempts, 2);
  assert.equal(await code("print(once)"), "1");
  unlucky.destroy();
});

await step("StopCodeInterpreterSession", async () => {
  const named = { codeInterpreterIdentifier: SYSTEM, sessionId: kept.session };
  const answer = await data.send(new plane.StopCodeInterpreterSessionCommand(named));
  assert(answer.lastUpdatedAt instanceof Date);
  assert.equal((await data.send(new plane.GetCodeInterpreterSessionCommand(named))).status, "TERMINATED");
});

await step("typed errors", async () => {
  await assert.rejects(call("listFiles"), (error) => error instanceof plane.ResourceNotFoundException);
  await assert.rejects(
    data.send(
      new plane.StartCodeInterpreterSessionCommand({ codeInterpreterIdentifier: SYSTEM, sessionTimeoutSeconds: 99999 }),
    ),
    (error) => error instanceof plane.ValidationException && error.reason === "FieldValidationFailed",
  );
});

await step("CreateCodeInterpreter", async () => {
  const answer = await control.send(
    new steering.CreateCodeInterpreterCommand({
      name: `node_${randomUUID().slice(0, 8)}`,
      description: "made from Node.js",
      networkConfiguration: { networkMode: "SANDBOX" },
      tags: { team: "three" },
    }),
  );
  kept.id = answer.codeInterpreterId;
  kept.arn = answer.codeInterpreterArn;
});

await step("GetCodeInterpreter", async () => {
  const answer = await control.send(new steering.GetCodeInterpreterCommand({ codeInterpreterId: kept.id }));
  assert.deepEqual([answer.description, answer.status], ["made from Node.js", "READY"]);
});

await step("ListCodeInterpreters", async () => {
  const found = [];
  const pages = steering.paginateListCodeInterpreters({ client: control, pageSize: 1 }, { type: "CUSTOM" });
  for await (const page of pages) found.push(...page.codeInterpreterSummaries.map((item) => item.codeInterpreterId));
  assert(found.includes(kept.id));
});

await step("a session of a custom code interpreter", async () => {
  for (const identifier of [kept.id, kept.arn]) {
    const named = { codeInterpreterIdentifier: identifier };
    kept.session = (await data.send(new plane.StartCodeInterpreterSessionCommand(named))).sessionId;
    kept.interpreter = identifier;
    assert.equal(await code("print(6 * 7)"), "42");
    await data.send(new plane.StopCodeInterpreterSessionCommand({ ...named, sessionId: kept.session }));
  }
});

await step("TagResource", async () => {
  await control.send(new steering.TagResourceCommand({ resourceArn: kept.arn, tags: { "b c": "", stage: "test" } }));
});

await step("ListTagsForResource", async () => {
  const { tags } = await control.send(new steering.ListTagsForResourceCommand({ resourceArn: kept.arn }));
  assert.deepEqual(tags, { team: "three", "b c": "", stage: "test" });
});

await step("UntagResource", async () => {
  await control.send(new steering.UntagResourceCommand({ resourceArn: kept.arn, tagKeys: ["b c", "team"] }));
  const { tags } = await control.send(new steering.ListTagsForResourceCommand({ resourceArn: kept.arn }));
  assert.deepEqual(tags, { stage: "test" });
});

await step("DeleteCodeInterpreter", async () => {
  await control.send(new steering.DeleteCodeInterpreterCommand({ codeInterpreterId: kept.id }));
  await assert.rejects(
    control.send(new steering.GetCodeInterpreterCommand({ codeInterpreterId: kept.id })),
    (error) => error instanceof steering.ResourceNotFoundException,
  );
});

const installed = new URL("node_modules/@aws-sdk/client-bedrock-agentcore/package.json", import.meta.url);
const { version } = JSON.parse(readFileSync(installed, "utf8"));
console.log(JSON.stringify({ client: `AWS SDK for JavaScript ${version}`, steps: verdicts }));
