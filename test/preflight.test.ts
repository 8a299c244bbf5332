/**
 * Preflight against a server that speaks AWS's protocols: moto (tools/moto). A cluster's part: preflight-kubernetes.test.ts.
 * Moto knows no capacity reservations, no quotas but a VPC's, no add-on or cluster versions: those answers are put in front of
 * it in the form AWS documents.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import {
  CreateImageCommand,
  CreateSubnetCommand,
  CreateVpcCommand,
  DescribeImagesCommand,
  EC2Client,
  RunInstancesCommand,
  TerminateInstancesCommand,
} from "@aws-sdk/client-ec2";
import { CreateClusterCommand, DeleteClusterCommand, EKSClient } from "@aws-sdk/client-eks";
import { CreateBucketCommand, PutBucketTaggingCommand, S3Client } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { awsName } from "../modules/cluster/aws/names.ts";
import type { AwsTarget } from "../modules/cluster/aws/target.ts";
import { connectAws } from "../modules/cluster/preflight/aws/connect.ts";
import { instanceFactChecks } from "../modules/cluster/preflight/aws/instance-types.ts";
import { runChecks } from "../modules/cluster/preflight/check.ts";
import { ACCOUNT, aws, githubRl, NOW, poolsFor } from "../modules/cluster/preflight/fixture.ts";
import { connectClients, preflight, renderPreflight } from "../modules/cluster/preflight/index.ts";
import type { Finding, PreflightReport } from "../schemas/finding.ts";
import { INSTANCES } from "../schemas/instance.ts";
import { EKS_ADDONS } from "../schemas/pins.ts";
import { type Moto, startMoto } from "./support/moto.ts";

const TAGS = [{ Key: "uplift:target", Value: aws.name }];

/** Everything preflight finds, with registries out of reach: they are not what is tested here. */
async function look(target: AwsTarget): Promise<PreflightReport> {
  const provider = async () => ({ version: "1.0.0", path: "/plugins/provider", download: "" });
  const clients = connectClients(target, {
    ...{ env: process.env, now: NOW, kept: new Set<string>(), pulumi: async () => "/bin/pulumi", provider },
  });
  const registries = { digestOf: async () => null, isAt: async () => true, close: () => {} };
  try {
    return await preflight(target, [githubRl], { ...clients, registries });
  } finally {
    clients.close();
  }
}

const of = ({ findings }: PreflightReport, check: string) =>
  findings.filter((one) => one.check === check).map(({ status, subject, found }) => `${status} ${subject}: ${found}`);

describe("preflight of AWS", () => {
  let moto: Moto;
  let front: Server;
  let frontUrl = "";
  let tools = "";
  let ec2: EC2Client;
  let target: AwsTarget;
  /** Answers that moto has none for; one test changes them. */
  const documented: { reservations: string; denied: string | null; limits: Record<string, number> } = {
    ...{
      reservations: "",
      denied: null,
      limits: {
        ...{ "L-417A185B": 800, "L-1216C47A": 640, "L-0263D0A3": 5, "L-1194D53C": 100 },
        // FSx's and RDS's defaults, less of one.
        ...{ "L-FD6F2F22": 100, "L-8F1B9C74": 2400, "L-7B6409FD": 40, "L-7ADDB58A": 100_000 },
      },
    },
  };
  const settings = () => ({
    ...{ region: "us-east-1", endpoint: moto.url },
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
  });

  /** An image of the account, made of an instance of one of Amazon's: an image by itself has no architecture in moto. */
  async function image(Name: string, architecture: "x86_64" | "arm64"): Promise<string> {
    const { Images = [] } = await ec2.send(new DescribeImagesCommand({ Owners: ["amazon"] }));
    const ImageId = Images.find(({ Architecture }) => Architecture === architecture)?.ImageId;
    const started = await ec2.send(
      new RunInstancesCommand({ ImageId, InstanceType: "t4g.nano", MinCount: 1, MaxCount: 1 }),
    );
    const InstanceId = started.Instances?.[0]?.InstanceId;
    const made = await ec2.send(new CreateImageCommand({ InstanceId, Name }));
    await ec2.send(new TerminateInstancesCommand({ InstanceIds: [InstanceId ?? ""] }));
    return made.ImageId ?? "";
  }

  beforeAll(async () => {
    moto = await startMoto();
    tools = await mkdtemp(join(tmpdir(), "uplift-preflight-"));
    // Stands for the AWS CLI: a token, and a line for each time it was asked.
    const credential = {
      apiVersion: "client.authentication.k8s.io/v1beta1",
      kind: "ExecCredential",
      status: { token: "t" },
    };
    const script = `#!/bin/sh\necho "$@" >>"${join(tools, "asked")}"\necho '${JSON.stringify(credential)}'\n`;
    await writeFile(join(tools, "aws"), script, { mode: 0o755 });
    front = createServer(async (request, response) => {
      const body = await text(request);
      const own = answer(request, body, documented);
      if (own) return response.writeHead(own.status ?? 200, { "content-type": own.type }).end(own.body);
      const { method, url, headers } = request;
      const passed = httpRequest(`${moto.url}${url}`, { method, headers }, (answered) => {
        response.writeHead(answered.statusCode ?? 502, answered.headers);
        answered.pipe(response);
      });
      // Its caller has gone: preflight does not wait for ever.
      passed.on("error", () => response.destroy());
      passed.end(body);
    });
    await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
    frontUrl = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    ec2 = new EC2Client(settings());
    const gpu = await image("amazon-eks-node-al2023-x86_64-nvidia-1.34-v20261120", "x86_64");
    const cpu = await image("amazon-eks-node-al2023-arm64-standard-1.34-v20261120", "arm64");
    target = { ...aws, platform: { ...aws.platform, amis: { gpu, cpu } } };
  });
  beforeEach(() => {
    vi.stubEnv("AWS_ENDPOINT_URL", frontUrl);
    vi.stubEnv("AWS_ACCESS_KEY_ID", "test");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "test");
    vi.stubEnv("AWS_PROFILE", undefined);
    vi.stubEnv("PATH", `${tools}:${process.env.PATH}`);
    documented.denied = null;
    return () => vi.unstubAllEnvs();
  });
  afterAll(async () => {
    ec2?.destroy();
    front?.closeAllConnections();
    front?.close();
    await moto?.stop();
    await rm(tools, { recursive: true, force: true });
  });

  it("knows every GPU type of schemas/instance.ts as EC2 describes it", async () => {
    const api = connectAws({ region: "us-east-1", accountId: ACCOUNT });
    const pools = poolsFor(target);
    const checks = Object.values(INSTANCES).flatMap((instance) =>
      instanceFactChecks(api, { ...pools, serving: null, training: { ...pools.training, instance } }),
    );
    const findings = await runChecks(checks, 60);
    api.close();
    expect(findings.map(({ status, found }) => [status, found])).toEqual(
      Object.values(INSTANCES).map((row) => [
        "ok",
        `GPUs ${row.gpus}, MiB a GPU ${row.gpuMemoryMib}, vCPUs ${row.vcpus}, MiB ${row.memoryMib}, network cards ${row.networkCards}, EFA interfaces ${row.efaInterfaces}`,
      ]),
    );
  });

  it("finds a type that differs from its row, and one that its zone does not have", async () => {
    const [instance, row] = [INSTANCES["p6-b200.48xlarge"], { ...INSTANCES["p6-b200.48xlarge"], efaInterfaces: 16 }];
    const report = await look({
      ...target,
      instance: row,
      platform: { ...target.platform, serving: { instance, maxNodes: 2 } },
    });
    expect(of(report, "instance-facts")).toContain("error facts of p6-b200.48xlarge: EC2 says EFA interfaces 8");
    expect(of(report, "offering")).toContain("error offers of p6-b200.48xlarge: offered in us-east-1c");
    expect(report.findings.find(({ subject }) => subject === "offers of p6-b200.48xlarge")?.todo).toContain(
      "name us-east-1c first in the target's zones",
    );
  });

  it("of an empty account finds what is missing and what is enough", async () => {
    const report = await look(target);
    expect(of(report, "account")).toEqual([`ok credentials: arn:aws:sts::${ACCOUNT}:user/moto`]);
    expect(of(report, "zone")).toEqual(["ok us-east-1a: available (use1-az6)", "ok us-east-1b: available (use1-az1)"]);
    expect(of(report, "ami")).toEqual([
      `ok gpu AMI ${target.platform.amis.gpu}: "amazon-eks-node-al2023-x86_64-nvidia-1.34-v20261120" of ${ACCOUNT}, available`,
      `error cpu AMI ${target.platform.amis.cpu}: architecture arm64`,
    ]);
    // Four training nodes and one of serving want 960 vCPUs.
    expect(of(report, "quota")).toEqual([
      "error on-demand P vCPUs (L-417A185B): limit 800, in use 0",
      "ok on-demand standard vCPUs (A, C, D, H, I, M, R, T, Z) (L-1216C47A): limit 640, in use 0",
      // moto's own quota, and the default VPC every region has.
      "ok VPCs in the region (L-F678F1CE): limit 5, in use 1",
      "ok Elastic IPs in the region (L-0263D0A3): limit 5, in use 0",
      "ok EKS clusters in the region (L-1194D53C): limit 100, in use 0",
      "ok FSx Lustre Persistent_2 file systems (L-FD6F2F22): limit 100; what is in use is not counted",
      "error FSx Lustre Persistent_2 storage (L-8F1B9C74): limit 2400 GiB; what is in use is not counted",
      "ok RDS instances (L-7B6409FD): limit 40; what is in use is not counted",
      "ok RDS storage (L-7ADDB58A): limit 100000 GB; what is in use is not counted",
    ]);
    expect(of(report, "eks-version")).toEqual(["ok Kubernetes 1.34: in standard support until 2027-12-02"]);
    expect(of(report, "eks-addon").filter((line) => !line.startsWith("ok"))).toEqual([
      "error add-on coredns: AWS offers v1.13.2-eksbuild.1",
    ]);
    expect(of(report, "bucket").every((line) => line.startsWith("ok") && line.endsWith(": free"))).toBe(true);
    expect(of(report, "eks-cluster")).toEqual([`ok EKS cluster ${awsName(target, "eks")}: not made yet`]);
    expect(report.findings.filter(({ area }) => area === "kubernetes")).toEqual([]);
  });

  it("counts what runs already, and what of it is the target's", async () => {
    const run = (count: number, Tags: typeof TAGS) =>
      ec2.send(
        new RunInstancesCommand({
          ...{ ImageId: target.platform.amis.gpu, InstanceType: "p5en.48xlarge", MinCount: count, MaxCount: count },
          TagSpecifications: Tags.length > 0 ? [{ ResourceType: "instance", Tags }] : [],
        }),
      );
    await run(1, []);
    await run(2, TAGS);
    documented.limits["L-417A185B"] = 1344;
    expect(of(await look(target), "quota")[0]).toBe(
      "ok on-demand P vCPUs (L-417A185B): limit 1344, in use 576, 384 of them by this target",
    );
    const quota = async (limit: number) => {
      documented.limits["L-417A185B"] = limit;
      const { status, todo } = (await look(target)).findings.find(({ check }) => check === "quota") as Finding;
      return [status, /--desired-value \d+/.exec(todo)?.[0]];
    };
    // Five nodes of the plans and one of another owner; a sixth to which serving may grow.
    expect(await quota(1343)).toEqual(["warning", "--desired-value 1344"]);
    expect(await quota(1152)).toEqual(["warning", "--desired-value 1344"]);
    expect((await quota(1151))[0]).toBe("error");
  });

  it("finds a network, cluster and buckets that are there, and whose they are", async () => {
    const vpc = await ec2.send(
      new CreateVpcCommand({ CidrBlock: "10.64.0.0/16", TagSpecifications: [{ ResourceType: "vpc", Tags: TAGS }] }),
    );
    const subnet = await ec2.send(
      new CreateSubnetCommand({
        ...{ VpcId: vpc.Vpc?.VpcId, CidrBlock: "10.64.0.0/19", AvailabilityZone: "us-east-1a" },
        TagSpecifications: [{ ResourceType: "subnet", Tags: TAGS }],
      }),
    );
    const eks = new EKSClient(settings());
    const name = awsName(target, "eks");
    await eks.send(
      new CreateClusterCommand({
        ...{ name, version: "1.32", roleArn: `arn:aws:iam::${ACCOUNT}:role/eks`, resourcesVpcConfig: {} },
        tags: { "uplift:target": target.name },
      }),
    );
    const s3 = new S3Client({ ...settings(), forcePathStyle: true });
    const [ours, foreign] = [awsName(target, "traces"), awsName(target, "datasets")];
    await s3.send(new CreateBucketCommand({ Bucket: ours }));
    await s3.send(new PutBucketTaggingCommand({ Bucket: ours, Tagging: { TagSet: TAGS } }));
    await s3.send(new CreateBucketCommand({ Bucket: foreign }));
    const report = await look(target);
    // 8187 addresses of the subnet, five nodes less the two that run, 100 addresses each.
    expect(report.findings.find(({ check }) => check === "addresses")).toMatchObject({
      ...{ status: "ok", found: `8187 free addresses in ${subnet.Subnet?.SubnetId} (10.64.0.0/19)` },
      wanted: "300 for 3 more × p5en.48xlarge (100 each)",
    });
    expect(of(report, "quota")[2]).toBe(
      "ok VPCs in the region (L-F678F1CE): limit 5, in use 2, 1 of them by this target",
    );
    expect(of(report, "eks-cluster")).toEqual([`error EKS cluster ${name}: ACTIVE, Kubernetes 1.32`]);
    expect(of(report, "bucket").sort()).toEqual(
      [
        `error bucket ${foreign}: in this account, and not made by Uplift`,
        `ok bucket ${awsName(target, "checkpoints")}: free`,
        `ok bucket ${awsName(target, "snapshots")}: free`,
        `ok bucket ${ours}: made by this target`,
      ].sort(),
    );
    // The cluster's address leads nowhere; its checks say so and hold up no other. All enter with one token.
    const inside = report.findings.filter(({ area }) => area === "kubernetes");
    expect(inside.length).toBeGreaterThan(3);
    expect(new Set(inside.map(({ status }) => status))).toEqual(new Set(["unchecked"]));
    const asked = (await readFile(join(tools, "asked"), "utf8")).trim().split("\n");
    expect(asked).toEqual([`--region us-east-1 eks get-token --cluster-name ${name} --output json`]);
    await eks.send(new DeleteClusterCommand({ name }));
    for (const client of [eks, s3]) client.destroy();
  });

  it("reads reservations as AWS answers them", async () => {
    documented.reservations = reservationXml({
      id: "cr-0123",
      zone: "us-east-1c",
      total: 8,
      free: 2,
      end: "2026-12-03T11:30:00.000Z",
    });
    const block = {
      ...{ kind: "capacity-block" as const, id: "cr-0123" },
      ...{ startsAt: "2026-11-30T11:30:00Z", endsAt: "2026-12-03T11:30:00Z" },
    };
    expect(of(await look({ ...target, pricing: block }), "reservation")).toEqual([
      "error capacity block cr-0123 (training): zone us-east-1c",
      "error capacity block cr-0123 (training): 2 of 8 instances for this target (2 free, 0 its own nodes)",
      "error capacity block cr-0123 (training): github-rl takes 78.3 h, at most 176.7 h",
    ]);
  });

  it("says which IAM action a denied call needs, and checks the rest", async () => {
    documented.denied = "DescribeInstances";
    const report = await look(target);
    expect(report.findings.find(({ check }) => check === "quota")).toMatchObject({
      ...{ status: "unchecked", found: "these credentials may not call ec2:DescribeInstances" },
      todo: "allow the IAM action ec2:DescribeInstances",
    });
    expect(of(report, "zone")[0]).toMatch(/^ok/);
  });

  it("believes nothing of another account", async () => {
    const other = { ...target, platform: { ...target.platform, accountId: "210987654321" } };
    const report = await look(other);
    expect(of(report, "account")[0]).toMatch(/^error credentials: .* of account 123456789012$/);
    const rest = report.findings.filter(({ area, check }) => area === "aws" && !["account", "target"].includes(check));
    expect(
      new Set(rest.map(({ status, found }) => (found.startsWith("the credentials are of account") ? status : found))),
    ).toEqual(new Set(["unchecked"]));
  });

  it("ends within 20 s where AWS takes connections and does not answer, and says what it could not check", async () => {
    moto.pause();
    try {
      const begun = Date.now();
      const report = await look(target);
      expect(Date.now() - begun).toBeLessThan(20_000);
      const asked = report.findings.filter(({ area, check }) => area === "aws" && check !== "target");
      expect(new Set(asked.map(({ status }) => status))).toEqual(new Set(["unchecked"]));
      expect(renderPreflight(report)).toContain("AWS cannot be reached (sts:GetCallerIdentity)");
    } finally {
      moto.resume();
    }
  });

  it("sees the AMIs that moto has of Amazon", async () => {
    const { Images = [] } = await ec2.send(new DescribeImagesCommand({ Owners: ["amazon"] }));
    expect(Images.length).toBeGreaterThan(0);
    const id = Images.find(({ Architecture }) => Architecture === "x86_64")?.ImageId ?? "";
    const report = await look({ ...target, platform: { ...target.platform, amis: { gpu: id, cpu: id } } });
    expect(of(report, "ami").some((line) => line.startsWith(`error`))).toBe(false);
  });
});

const XMLNS = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"';

/** As the EC2 API reference shows DescribeCapacityReservations. */
function reservationXml(block: { id: string; zone: string; total: number; free: number; end: string }): string {
  return `<item><capacityReservationId>${block.id}</capacityReservationId><ownerId>${ACCOUNT}</ownerId><instanceType>p5en.48xlarge</instanceType><instancePlatform>Linux/UNIX</instancePlatform><availabilityZone>${block.zone}</availabilityZone><tenancy>default</tenancy><totalInstanceCount>${block.total}</totalInstanceCount><availableInstanceCount>${block.free}</availableInstanceCount><ebsOptimized>false</ebsOptimized><ephemeralStorage>false</ephemeralStorage><state>active</state><startDate>2026-11-30T11:30:00.000Z</startDate><endDate>${block.end}</endDate><endDateType>limited</endDateType><instanceMatchCriteria>targeted</instanceMatchCriteria><reservationType>capacity-block</reservationType></item>`;
}

interface OwnAnswer {
  readonly status?: number;
  readonly type: string;
  readonly body: string;
}

/** What moto does not know, and denials; null for everything else. */
function answer(
  { method, url = "", headers }: IncomingMessage,
  body: string,
  { reservations, denied, limits }: { reservations: string; denied: string | null; limits: Record<string, number> },
): OwnAnswer | null {
  const json = (value: unknown): OwnAnswer => ({ type: "application/x-amz-json-1.1", body: JSON.stringify(value) });
  const action = new URLSearchParams(body).get("Action");
  if (denied !== null && action === denied)
    return {
      ...{ status: 403, type: "text/xml" },
      body: `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized</Message></Error></Errors><RequestID>1</RequestID></Response>`,
    };
  if (action === "DescribeCapacityReservations")
    return {
      type: "text/xml",
      body: `<DescribeCapacityReservationsResponse ${XMLNS}><requestId>1</requestId><capacityReservationSet>${reservations}</capacityReservationSet></DescribeCapacityReservationsResponse>`,
    };
  if (headers["x-amz-target"] === "ServiceQuotasV20190624.GetServiceQuota") {
    const { ServiceCode, QuotaCode } = JSON.parse(body) as { ServiceCode: string; QuotaCode: string };
    // The VPC's is moto's own.
    if (ServiceCode === "vpc") return null;
    return json({ Quota: { ServiceCode, QuotaCode, Value: limits[QuotaCode] } });
  }
  const { pathname, searchParams } = new URL(url, "http://front");
  if (method === "GET" && pathname === "/cluster-versions") {
    const row = { clusterVersion: "1.34", versionStatus: "STANDARD_SUPPORT", endOfStandardSupportDate: 1_827_705_600 };
    return json({ clusterVersions: [row] });
  }
  if (method === "GET" && pathname === "/addons/supported-versions") {
    const addonName = searchParams.get("addonName") ?? "";
    const addonVersion =
      addonName === "coredns" ? "v1.13.2-eksbuild.1" : EKS_ADDONS[addonName as keyof typeof EKS_ADDONS];
    return json({ addons: [{ addonName, addonVersions: [{ addonVersion, compatibilities: [] }] }] });
  }
  return null;
}
