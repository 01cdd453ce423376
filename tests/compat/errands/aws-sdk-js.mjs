// The AWS SDK for JavaScript v3: x-id in its queries, streams sent aws-chunked with a checksum behind them.
import { Readable } from "node:stream";
import assert from "node:assert/strict";
import { LARGE, ODD, SMALL, again, begin, did, errand, fetched, load, same } from "./errand.mjs";

const s3 = load("@aws-sdk/client-s3");
const { Upload } = load("@aws-sdk/lib-storage");
const { getSignedUrl } = load("@aws-sdk/s3-request-presigner");
const settings = { endpoint: errand.endpoint, forcePathStyle: true, region: errand.region };
const client = new s3.S3Client(settings);
const Bucket = errand.bucket;
const send = (Command, input) => client.send(new Command({ Bucket, ...input }));
const read = async (input) => (await send(s3.GetObjectCommand, input)).Body.transformToByteArray();

begin(load("@aws-sdk/client-s3/package.json").version);
await send(s3.PutObjectCommand, { Key: ODD, Body: SMALL, ContentType: "text/odd", Metadata: { colour: "blue" } });
await send(s3.PutObjectCommand, { Key: "streamed.bin", Body: Readable.from([SMALL]), ContentLength: SMALL.length });
did("put");

for (let time = 0; time < 2; time++) same(await read({ Key: ODD }), SMALL);
again(ODD);
same(await read({ Key: "streamed.bin" }), SMALL);
const head = await send(s3.HeadObjectCommand, { Key: ODD });
assert.deepEqual([head.ContentType, head.Metadata, head.ContentLength], ["text/odd", { colour: "blue" }, SMALL.length]);
did("get");

same(await read({ Key: ODD, Range: "bytes=1000-1999" }), SMALL.subarray(1000, 2000));
same(await read({ Key: ODD, Range: "bytes=-7" }), SMALL.subarray(-7));
did("range");

const params = { Bucket, Key: "large.bin", Body: Readable.from([LARGE.subarray(0, 7 << 20), LARGE.subarray(7 << 20)]) };
await new Upload({ client, params, partSize: 5 << 20, queueSize: 3 }).done();
for (let time = 0; time < 2; time++) same(await read({ Key: "large.bin" }), LARGE);
again("large.bin");
did("parts up");

const listed = await send(s3.ListObjectsV2Command, {});
assert.deepEqual(listed.Contents.map((row) => row.Key).sort(), [ODD, "large.bin", "streamed.bin"].sort());
const folders = await send(s3.ListObjectsV2Command, { Delimiter: "/" });
assert.deepEqual(folders.CommonPrefixes, [{ Prefix: "odd/" }]);
did("list");

await send(s3.CopyObjectCommand, { Key: "copy.bin", CopySource: `${Bucket}/${encodeURIComponent(ODD)}` });
same(await read({ Key: "copy.bin" }), SMALL);
did("copy");

await send(s3.DeleteObjectCommand, { Key: "copy.bin" });
await send(s3.DeleteObjectsCommand, { Delete: { Objects: [{ Key: ODD }, { Key: "streamed.bin" }] } });
for (const Key of ["copy.bin", ODD]) await assert.rejects(read({ Key }), { name: "NoSuchKey" });
did("delete");

// By default the SDK signs the checksum of no body at all into the URL of an upload, which S3 then refuses.
const lax = new s3.S3Client({ ...settings, requestChecksumCalculation: "WHEN_REQUIRED" });
const signed = (Command) => getSignedUrl(lax, new Command({ Bucket, Key: "presigned.bin" }), { expiresIn: 300 });
await fetched(await signed(s3.PutObjectCommand), { method: "PUT", body: SMALL });
same(await fetched(await signed(s3.GetObjectCommand)), SMALL);
did("presigned");
