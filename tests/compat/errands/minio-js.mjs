// minio-js: payloads signed or UNSIGNED-PAYLOAD, its own multipart uploads.
import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import assert from "node:assert/strict";
import { LARGE, ODD, SMALL, again, begin, did, errand, fetched, gather, load, same } from "./errand.mjs";

const minio = load("minio");
const { hostname, port } = new URL(errand.endpoint);
const client = new minio.Client({
  endPoint: hostname,
  port: Number(port),
  useSSL: false,
  accessKey: errand.access,
  secretKey: errand.secret,
  partSize: 5 << 20,
});
const { bucket } = errand;
const read = async (key) => gather(await client.getObject(bucket, key));
const names = (prefix, recursive) => gatherRows(client.listObjectsV2(bucket, prefix, recursive));

async function gatherRows(stream) {
  const rows = [];
  for await (const row of stream) rows.push(row.name ?? row.prefix);
  return rows;
}

// Not by load: the package does not export its package.json.
begin(JSON.parse(readFileSync(`${process.env.ERRAND_NODE_MODULES}/minio/package.json`)).version);
await client.putObject(bucket, ODD, SMALL, SMALL.length, { "Content-Type": "text/odd", colour: "blue" });
did("put");

for (let time = 0; time < 2; time++) same(await read(ODD), SMALL);
again(ODD);
const found = await client.statObject(bucket, ODD);
assert.deepEqual([found.size, found.metaData["content-type"], found.metaData.colour], [SMALL.length, "text/odd", "blue"]);
did("get");

same(await gather(await client.getPartialObject(bucket, ODD, 1000, 1000)), SMALL.subarray(1000, 2000));
did("range");

await client.putObject(bucket, "large.bin", Readable.from([LARGE]), LARGE.length);
for (let time = 0; time < 2; time++) same(await read("large.bin"), LARGE);
again("large.bin");
did("parts up");

assert.deepEqual((await names("", true)).sort(), [ODD, "large.bin"].sort());
assert.deepEqual((await names("", false)).sort(), ["large.bin", "odd/"]);
did("list");

await client.copyObject(bucket, "copy.bin", `/${bucket}/${ODD}`);
same(await read("copy.bin"), SMALL);
did("copy");

await client.removeObject(bucket, "copy.bin");
await client.removeObjects(bucket, [ODD]);
for (const key of ["copy.bin", ODD]) await assert.rejects(read(key), { code: "NoSuchKey" });
did("delete");

await fetched(await client.presignedPutObject(bucket, "presigned.bin", 300), { method: "PUT", body: SMALL });
same(await fetched(await client.presignedGetObject(bucket, "presigned.bin", 300)), SMALL);
did("presigned");
