/** AWS, p5.48xlarge: 8 × H100 80 GB a node. Copy this file and change what is yours: zone, capacity, addresses, image digests. */
import { awsTarget } from "../../schemas/target.ts";
import { awsPlatform, images, inCluster } from "../cluster-defaults.ts";

export default awsTarget({
  name: "aws-p5",
  region: "us-east-1",
  zones: ["us-east-1a"],
  instance: "p5.48xlarge",
  maxNodes: 8,
  pricing: { kind: "on-demand" },
  images,
  // FSx for Lustre with 250 MB/s per TiB on 4800 GiB: 1.2 GB/s for all nodes together; one that loads alone gets 1.
  storage: { mountPath: "/fsx", readGbPerSecond: 1 },
  ...inCluster, // its expertUrl is a placeholder that only planning reads (stacks/cluster-defaults.ts)
  platform: awsPlatform,
});
