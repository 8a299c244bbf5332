/**
 * Ends one endpoint whose time is over: its Deployment is scaled to 0, so that no GPU stays held, whoever is down.
 * Comes in: the API's URL, the file with this pod's token, namespace and name. Goes out: one line; exit status 1 where the
 * API refuses. Node alone: it runs by itself in the platform's image.
 */
import { readFileSync } from "node:fs";

const [url, tokenFile, namespace, name] = process.argv.slice(-4);
const deployment = `${url}/apis/apps/v1/namespaces/${namespace}/deployments/${name}`;

async function ask(method, address, body) {
  const response = await fetch(address, {
    method,
    headers: {
      authorization: `Bearer ${readFileSync(tokenFile, "utf8").trim()}`,
      accept: "application/json",
      ...(body ? { "content-type": "application/merge-patch+json" } : {}),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
    signal: AbortSignal.timeout(30_000),
  });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  if (response.status === 404) return null;
  throw new Error(`${method} ${address}: ${response.status} ${text.slice(0, 500)}`);
}

const found = await ask("GET", deployment);
// The annotation alone decides, so that no guard of a moment ago ends what was just extended. No end, or none that can be
// read, is over: `now < NaN` is false.
const end = found?.metadata.annotations?.["uplift.dev/expires-at"] ?? "an end that nobody wrote down";
if (found === null) console.log(`${name} is gone`);
else if (Date.now() < Date.parse(end)) console.log(`${name} has until ${end}`);
else if (found.spec.replicas === 0) console.log(`${name} has ended`);
else {
  // Its own name as the owner of the field, so that who looks at managedFields sees why it is 0.
  await ask("PATCH", `${deployment}/scale?fieldManager=uplift-expiry`, { spec: { replicas: 0 } });
  console.log(`${name} is ended: its time was over at ${end}`);
}
