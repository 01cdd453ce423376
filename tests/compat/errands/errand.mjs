// What compat/errand.py is to Python: where to go, what to send, and how to tell of it. Nothing but Node's own modules.
import { createRequire } from "node:module";
import { createHash } from "node:crypto";
import assert from "node:assert/strict";

const environ = process.env;
export const load = createRequire(environ.ERRAND_NODE_MODULES + "/");
export const errand = {
  endpoint: environ.ERRAND_ENDPOINT,
  bucket: environ.ERRAND_BUCKET,
  access: environ.AWS_ACCESS_KEY_ID,
  secret: environ.AWS_SECRET_ACCESS_KEY,
  region: environ.AWS_DEFAULT_REGION,
};
export const ODD = "odd/sp ace+plus&and=is~'(1)%2F%20#ü€.bin";
export const SMALL = noise(100_003);
export const LARGE = noise((13 << 20) + 17);

const tell = (fact) => process.stdout.write(JSON.stringify(fact) + "\n");
export const begin = (version) => tell({ version });
export const did = (deed) => tell({ did: deed });
export const again = (key) => tell({ again: key });

export function same(got, sent) {
  assert.equal(got.length, sent.length);
  assert.ok(Buffer.compare(Buffer.from(got), sent) === 0, "the bytes differ");
}

export async function gather(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}

export async function fetched(url, options) {
  const answer = await fetch(url, options);
  const body = Buffer.from(await answer.arrayBuffer());
  assert.ok(answer.ok, `${answer.status} ${body}`);
  return body;
}

// Bytes without a pattern, the same in every run.
function noise(length) {
  const pieces = [];
  for (let number = 0; number * 64 < length; number++) pieces.push(createHash("sha512").update(`${length} ${number}`).digest());
  return Buffer.concat(pieces).subarray(0, length);
}
