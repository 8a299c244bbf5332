/**
 * AWS as preflight sees it: read-only questions → plain answers, in the SDK's own shapes. Checks take the few they need.
 */
import type {
  Address,
  AvailabilityZone,
  CapacityReservation,
  Image,
  Instance,
  InstanceTypeInfo,
  InstanceTypeOffering,
  Subnet,
  Vpc,
} from "@aws-sdk/client-ec2";
import type { AddonInfo, Cluster, ClusterVersionInformation } from "@aws-sdk/client-eks";

/** Who the credentials are. */
export interface Caller {
  readonly account: string;
  readonly arn: string;
}

/** What S3 says of a bucket's name to these credentials. */
export type BucketAnswer = "missing" | "reachable" | "forbidden";

export interface AwsApi {
  callerIdentity(): Promise<Caller>;
  /** The account's value, else AWS's default. */
  quota(service: string, code: string): Promise<number>;
  /** Pending and running ones of the region. */
  instances(): Promise<readonly Instance[]>;
  /** Of the account, and shared with it; capacity blocks too. */
  capacityReservations(): Promise<readonly CapacityReservation[]>;
  images(ids: readonly string[]): Promise<readonly Image[]>;
  instanceTypes(names: readonly string[]): Promise<readonly InstanceTypeInfo[]>;
  /** In which zones these types exist. */
  offerings(types: readonly string[]): Promise<readonly InstanceTypeOffering[]>;
  /** Of the region, also those the account has not opted in to. */
  zones(): Promise<readonly AvailabilityZone[]>;
  vpcs(): Promise<readonly Vpc[]>;
  addresses(): Promise<readonly Address[]>;
  subnets(): Promise<readonly Subnet[]>;
  eksClusters(): Promise<readonly string[]>;
  /** Null where there is none of that name. */
  eksCluster(name: string): Promise<Cluster | null>;
  clusterVersions(): Promise<readonly ClusterVersionInformation[]>;
  /** Versions of an add-on for a Kubernetes version. */
  addonVersions(addon: string, kubernetesVersion: string): Promise<readonly AddonInfo[]>;
  /** Names of the account's own buckets. */
  bucketNames(): Promise<readonly string[]>;
  bucket(name: string): Promise<BucketAnswer>;
  bucketTags(name: string): Promise<Readonly<Record<string, string>>>;
  /** Ends connections that nobody waits for any more. */
  close(): void;
}
