// ali-oss, Alibaba's SDK for JavaScript: Signature Version 4 here, Version 1 in ali-oss-v1.mjs.
import { createWriteStream, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Readable } from "node:stream";
import assert from "node:assert/strict";
import { LARGE, ODD, SMALL, again, begin, did, errand, fetched, gather, load, same } from "./errand.mjs";

const OSS = load("ali-oss");
const { bucket } = errand;

/** The errand; `options` are what the client is made with, besides keys and bucket. */
export async function travel(options) {
  const { ERRAND_TOKEN: stsToken, ERRAND_TOKEN_ACCESS: accessKeyId, ERRAND_TOKEN_SECRET: accessKeySecret } = process.env;
  const client = new OSS({ ...options, bucket, accessKeyId: errand.access, accessKeySecret: errand.secret });
  const read = async (key) => (await client.get(key)).content;
  begin(JSON.parse(readFileSync(`${process.env.ERRAND_NODE_MODULES}/ali-oss/package.json`)).version);

  await client.put(ODD, SMALL, { mime: "text/odd", meta: { colour: "blue" } });
  writeFileSync("small.bin", SMALL);
  await client.put("small.bin", "small.bin");
  did("put");

  await client.putStream("streamed.bin", Readable.from(pieces(LARGE)));
  same(await read("streamed.bin"), LARGE);
  did("stream");

  for (let time = 0; time < 2; time++) same(await read(ODD), SMALL);
  again(ODD);
  same(await gather((await client.getStream("small.bin")).stream), SMALL);
  await client.get("small.bin", createWriteStream("back.bin"));
  same(readFileSync("back.bin"), SMALL);
  await assert.rejects(read("never"), { code: "NoSuchKey", status: 404 });
  did("get");

  const head = await client.head(ODD, { headers: {} });
  const { headers } = head.res;
  assert.deepEqual([headers["content-type"], head.meta.colour, Number(headers["content-length"])], ["text/odd", "blue", SMALL.length]);
  assert.equal((await client.head(ODD, { headers: { "If-None-Match": headers.etag } })).status, 304);
  const meta = await client.getObjectMeta(ODD);
  assert.deepEqual([meta.res.headers.etag, Number(meta.res.headers["content-length"])], [headers.etag, SMALL.length]);
  await assert.rejects(client.head("never"), { code: "NoSuchKey", status: 404 });
  did("head");

  same((await client.get("small.bin", { headers: { Range: "bytes=1000-1999" } })).content, SMALL.subarray(1000, 2000));
  did("range");

  await client.multipartUpload("large.bin", LARGE, { partSize: 1 << 20, parallel: 3, meta: { by: "parts" } });
  for (let time = 0; time < 2; time++) same(await read("large.bin"), LARGE);
  again("large.bin");
  assert.equal((await client.head("large.bin")).meta.by, "parts");
  did("parts up");

  let checkpoint;
  const interrupted = client.multipartUpload("resumed.bin", LARGE, {
    partSize: 1 << 20,
    parallel: 1,
    progress: (share, at) => {
      if (share > 0.5) throw new Error("gave up");
      checkpoint = at;
    },
  });
  await assert.rejects(interrupted);
  const begun = (await client.listUploads({ prefix: "resumed" })).uploads;
  assert.deepEqual(begun.map((found) => [found.name, found.uploadId]), [["resumed.bin", checkpoint.uploadId]]);
  const there = await client.listParts("resumed.bin", checkpoint.uploadId);
  assert.ok(there.parts.length >= 6, `${there.parts.length} parts`);
  await client.multipartUpload("resumed.bin", LARGE, { partSize: 1 << 20, checkpoint });
  same(await read("resumed.bin"), LARGE);
  did("resume");

  const keys = [ODD, "large.bin", "resumed.bin", "small.bin", "streamed.bin"].sort();
  const first = await client.list({ "max-keys": 2 });
  const rest = await client.list({ "max-keys": 1000, marker: first.nextMarker });
  assert.deepEqual([...first.objects, ...rest.objects].map((found) => found.name), keys);
  assert.equal(first.isTruncated, true);
  const second = await client.listV2({ "max-keys": 2 });
  const others = await client.listV2({ "max-keys": 1000, "continuation-token": second.nextContinuationToken });
  assert.deepEqual([...second.objects, ...others.objects].map((found) => found.name), keys);
  const top = await client.listV2({ delimiter: "/", "max-keys": 1000 });
  assert.deepEqual([top.prefixes, top.objects.length], [["odd/"], keys.length - 1]);
  assert.equal((await client.getBucketInfo(bucket)).bucket.Name, bucket);
  did("list");

  await client.copy("copy.bin", ODD);
  same(await read("copy.bin"), SMALL);
  assert.equal((await client.head("copy.bin")).meta.colour, "blue");
  did("copy");

  await client.delete("copy.bin");
  const gone = await client.deleteMulti([ODD, "small.bin"]);
  assert.deepEqual(gone.deleted.map((found) => found.Key).sort(), [ODD, "small.bin"].sort());
  for (const key of ["copy.bin", ODD]) await assert.rejects(read(key), { code: "NoSuchKey" });
  did("delete");

  const token = new OSS({ ...options, bucket, accessKeyId, accessKeySecret, stsToken, refreshSTSToken: async () => ({ accessKeyId, accessKeySecret, stsToken }) });
  await token.put("token.bin", SMALL);
  same((await token.get("token.bin")).content, SMALL);
  const other = new OSS({ ...options, bucket, accessKeyId, accessKeySecret, stsToken: "x", refreshSTSToken: async () => ({ accessKeyId, accessKeySecret, stsToken: "x" }) });
  await assert.rejects(other.get("token.bin"), { status: 403 });
  did("token");

  if (options.authorizationV4) {
    const up = await client.signatureUrlV4("PUT", 60, { headers: { "Content-Type": "text/odd" } }, "signed/a b+c.bin");
    await fetched(up, { method: "PUT", body: SMALL, headers: { "Content-Type": "text/odd" } });
    same(await fetched(await client.signatureUrlV4("GET", 60, undefined, "signed/a b+c.bin")), SMALL);
    did("presigned");
  }

  await assert.rejects(client.append("appended", SMALL), { status: 501, code: "NotImplemented" });
  await assert.rejects(client.putSymlink("link", "token.bin", {}), { status: 501, code: "NotImplemented" });
  await assert.rejects(read("appended"), { code: "NoSuchKey" });
  const foreign = new OSS({ ...options, bucket, accessKeyId: errand.access, accessKeySecret: "wrong" });
  await assert.rejects(foreign.get("token.bin"), { status: 403, code: "SignatureDoesNotMatch" });
  did("refused");
}

function* pieces(whole) {
  for (let start = 0; start < whole.length; start += 700_001) yield whole.subarray(start, start + 700_001);
}

// A name instead of an address, and the bucket in the path: with an address it would send the host of Alibaba's own endpoint.
if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const endpoint = errand.endpoint.replace("127.0.0.1", "localhost");
  await travel({ endpoint, sldEnable: true, region: "oss-cn-hangzhou", authorizationV4: true });
}
