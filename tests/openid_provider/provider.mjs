// A small identity provider: node-oidc-provider with two people. Its first line says where it is.
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const PEOPLE = {
  ada: { email: "ada@example.com", email_verified: true, groups: ["platform"] },
  vera: { email: "vera@example.com", email_verified: true, groups: ["audit"] },
  uma: { email: "uma@example.com", email_verified: true, groups: ["data-science"] },
  nobody: { email: "nobody@example.com", email_verified: true, groups: ["visitors"] },
  mallory: { email: "ada@example.com", email_verified: false, groups: ["platform"] },
};
const server = createServer((request, response) => provider.callback()(request, response));
await new Promise((done) => server.listen(0, "localhost", done));
const issuer = `http://localhost:${server.address().port}`;
const provider = new Provider(issuer, {
  // A native client may come back to any port of the loopback address: the service takes a free one.
  clients: [{
    client_id: "console", client_secret: "the secret: of/the+console", application_type: "native",
    redirect_uris: ["http://127.0.0.1/"], response_types: ["code"], grant_types: ["authorization_code"],
  }],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
  pkce: { required: () => true },
  findAccount: (_context, id) => PEOPLE[id] && { accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) },
});
console.log(issuer);
