// ali-oss with Signature Version 1, its default, pointed at an address: it sends Host: BUCKET.oss-cn-hangzhou.aliyuncs.com.
import { errand } from "./errand.mjs";
import { travel } from "./ali-oss.mjs";

await travel({ endpoint: errand.endpoint });
