/**
 * AWS for real: the questions of api.ts asked of one target's account and region. A call that fails throws CannotCheck with the
 * IAM action that is missing. Reads the network. AWS_ENDPOINT_URL is honoured, as by every AWS tool.
 */
import { setMaxListeners } from "node:events";
import {
  DescribeAddressesCommand,
  DescribeAvailabilityZonesCommand,
  DescribeImagesCommand,
  EC2Client,
  paginateDescribeCapacityReservations,
  paginateDescribeInstances,
  paginateDescribeInstanceTypeOfferings,
  paginateDescribeInstanceTypes,
  paginateDescribeSubnets,
  paginateDescribeVpcs,
} from "@aws-sdk/client-ec2";
import {
  DescribeClusterCommand,
  DescribeClusterVersionsCommand,
  EKSClient,
  paginateDescribeAddonVersions,
  paginateListClusters,
} from "@aws-sdk/client-eks";
import { GetBucketTaggingCommand, HeadBucketCommand, paginateListBuckets, S3Client } from "@aws-sdk/client-s3";
import {
  GetAWSDefaultServiceQuotaCommand,
  GetServiceQuotaCommand,
  ServiceQuotasClient,
} from "@aws-sdk/client-service-quotas";
import { GetCallerIdentityCommand, STSClient } from "@aws-sdk/client-sts";
import { CannotCheck } from "../check.ts";
import type { AwsApi, BucketAnswer, Caller } from "./api.ts";
import { cannotCall, failureName } from "./failures.ts";

/** One connection may take this long, one call that long; each is tried twice. */
const CONNECT_MS = 2500;
const ANSWER_MS = 5000;

/** Where to look, and as whom the answers count. */
export interface AwsPlace {
  readonly region: string;
  /** Answers of another account would mislead: they are refused. */
  readonly accountId: string;
}

/** The real thing. Credentials come from where every AWS tool takes them. */
export function connectAws({ region, accountId }: AwsPlace): AwsApi {
  const stopped = new AbortController();
  // Every call under way listens.
  setMaxListeners(0, stopped.signal);
  const settings = {
    region,
    maxAttempts: 2,
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true },
  };
  const sts = new STSClient(settings);
  const ec2 = new EC2Client(settings);
  const eks = new EKSClient(settings);
  const quotas = new ServiceQuotasClient(settings);
  // A stand-in at AWS_ENDPOINT_URL has no host names of buckets.
  const s3 = new S3Client({ ...settings, forcePathStyle: process.env.AWS_ENDPOINT_URL !== undefined });
  const options = { abortSignal: stopped.signal };

  const callerIdentity = once(async (): Promise<Caller> => {
    try {
      const { Account = "", Arn = "" } = await sts.send(new GetCallerIdentityCommand({}), options);
      return { account: Account, arn: Arn };
    } catch (failure) {
      throw cannotCall("sts:GetCallerIdentity", failure);
    }
  });
  /** Runs a call as the right account; what it throws says which action is missing. */
  const ask = async <T>(action: string, call: () => Promise<T>): Promise<T> => {
    const { account } = await callerIdentity();
    if (account !== accountId)
      throw new CannotCheck(
        `the credentials are of account ${account}, the target is of ${accountId}`,
        `log in to account ${accountId}, or correct the target's platform.accountId`,
      );
    return call().catch((failure: unknown) => {
      throw cannotCall(action, failure);
    });
  };
  const all = <Page, Item>(
    action: string,
    pages: () => AsyncIterable<Page>,
    items: (page: Page) => Item[] | undefined,
  ) =>
    ask(action, async () => {
      const found: Item[] = [];
      for await (const page of pages()) found.push(...(items(page) ?? []));
      return found;
    });
  const inEc2 = { client: ec2 };
  /** What EC2 finds by filters, where an unknown id in a list of ids would be an error. */
  const filter = (Name: string, Values: readonly string[]) => [{ Name, Values: [...Values] }];

  return {
    callerIdentity,
    quota: (ServiceCode, QuotaCode) =>
      ask("servicequotas:GetServiceQuota", async () => {
        const asked = { ServiceCode, QuotaCode };
        const { Quota } = await quotas.send(new GetServiceQuotaCommand(asked), options).catch((failure: unknown) => {
          // Never changed for this account: the default counts.
          if (failureName(failure) !== "NoSuchResourceException") throw failure;
          return quotas.send(new GetAWSDefaultServiceQuotaCommand(asked), options);
        });
        if (Quota?.Value === undefined) throw new Error(`no value of quota ${QuotaCode}`);
        return Quota.Value;
      }),
    instances: once(() =>
      all(
        "ec2:DescribeInstances",
        () => paginateDescribeInstances(inEc2, { Filters: filter("instance-state-name", ["pending", "running"]) }),
        ({ Reservations }) => Reservations?.flatMap(({ Instances = [] }) => Instances),
      ),
    ),
    capacityReservations: once(() =>
      all(
        "ec2:DescribeCapacityReservations",
        () => paginateDescribeCapacityReservations(inEc2, {}),
        ({ CapacityReservations }) => CapacityReservations,
      ),
    ),
    images: (ids) =>
      ask("ec2:DescribeImages", async () => {
        const asked = new DescribeImagesCommand({ Filters: filter("image-id", ids), IncludeDeprecated: true });
        return (await ec2.send(asked, options)).Images ?? [];
      }),
    instanceTypes: (names) =>
      all(
        "ec2:DescribeInstanceTypes",
        () => paginateDescribeInstanceTypes(inEc2, { Filters: filter("instance-type", names) }),
        ({ InstanceTypes }) => InstanceTypes,
      ),
    offerings: (types) =>
      all(
        "ec2:DescribeInstanceTypeOfferings",
        () =>
          paginateDescribeInstanceTypeOfferings(inEc2, {
            LocationType: "availability-zone",
            Filters: filter("instance-type", types),
          }),
        ({ InstanceTypeOfferings }) => InstanceTypeOfferings,
      ),
    zones: once(() =>
      ask("ec2:DescribeAvailabilityZones", async () => {
        const answer = await ec2.send(new DescribeAvailabilityZonesCommand({ AllAvailabilityZones: true }), options);
        return answer.AvailabilityZones ?? [];
      }),
    ),
    vpcs: once(() =>
      all(
        "ec2:DescribeVpcs",
        () => paginateDescribeVpcs(inEc2, {}),
        ({ Vpcs }) => Vpcs,
      ),
    ),
    addresses: once(() =>
      ask("ec2:DescribeAddresses", async () => {
        return (await ec2.send(new DescribeAddressesCommand({}), options)).Addresses ?? [];
      }),
    ),
    subnets: once(() =>
      all(
        "ec2:DescribeSubnets",
        () => paginateDescribeSubnets(inEc2, {}),
        ({ Subnets }) => Subnets,
      ),
    ),
    eksClusters: once(() =>
      all(
        "eks:ListClusters",
        () => paginateListClusters({ client: eks }, {}),
        ({ clusters }) => clusters,
      ),
    ),
    eksCluster: (name) =>
      ask("eks:DescribeCluster", async () => {
        const answer = await eks.send(new DescribeClusterCommand({ name }), options).catch((failure: unknown) => {
          if (failureName(failure) === "ResourceNotFoundException") return null;
          throw failure;
        });
        return answer?.cluster ?? null;
      }),
    clusterVersions: once(() =>
      ask("eks:DescribeClusterVersions", async () => {
        const asked = new DescribeClusterVersionsCommand({ clusterType: "eks", includeAll: true });
        return (await eks.send(asked, options)).clusterVersions ?? [];
      }),
    ),
    addonVersions: (addonName, kubernetesVersion) =>
      all(
        "eks:DescribeAddonVersions",
        () => paginateDescribeAddonVersions({ client: eks }, { addonName, kubernetesVersion }),
        ({ addons }) => addons,
      ),
    bucketNames: once(() =>
      all(
        "s3:ListAllMyBuckets",
        () => paginateListBuckets({ client: s3 }, {}),
        ({ Buckets }) => Buckets?.flatMap(({ Name }) => Name ?? []),
      ),
    ),
    bucket: (Bucket) =>
      ask("s3:ListBucket", async (): Promise<BucketAnswer> => {
        try {
          await s3.send(new HeadBucketCommand({ Bucket }), options);
          return "reachable";
        } catch (failure) {
          // A HEAD has no body: only the status says what is wrong. 301 and 400: it lies in another region.
          const status = statusOf(failure);
          if (status === 404) return "missing";
          if (status === 403 || status === 301 || status === 400) return "forbidden";
          throw failure;
        }
      }),
    bucketTags: (Bucket) =>
      ask("s3:GetBucketTagging", async () => {
        const answer = await s3.send(new GetBucketTaggingCommand({ Bucket }), options).catch((failure: unknown) => {
          if (failureName(failure) === "NoSuchTagSet") return null;
          throw failure;
        });
        return Object.fromEntries((answer?.TagSet ?? []).map(({ Key = "", Value = "" }) => [Key, Value]));
      }),
    close: () => {
      stopped.abort();
      for (const client of [sts, ec2, eks, quotas, s3]) client.destroy();
    },
  };
}

/** Asked once, however many checks want it. */
function once<T>(call: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined;
  return () => {
    answer ??= call();
    return answer;
  };
}

function statusOf(failure: unknown): number | undefined {
  if (typeof failure !== "object" || failure === null || !("$metadata" in failure)) return undefined;
  return (failure.$metadata as { httpStatusCode?: number }).httpStatusCode;
}
