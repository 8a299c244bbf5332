/**
 * Failures of AWS calls → why a check cannot look, with the IAM action that is missing. Pure.
 */
import { CannotCheck } from "../check.ts";
import { isNetworkFailure } from "../network.ts";

const NO_CREDENTIALS = /^(CredentialsProviderError|TokenProviderError)$|could not load credentials/i;
const BAD_CREDENTIALS =
  /^(ExpiredToken|ExpiredTokenException|RequestExpired|InvalidClientTokenId|UnrecognizedClientException|AuthFailure|SignatureDoesNotMatch|InvalidAccessKeyId|IncompleteSignature)$/;
const DENIED = /^(AccessDenied|AccessDeniedException|UnauthorizedOperation|AuthorizationError|Forbidden)$/;
const THROTTLED = /^(Throttling|ThrottlingException|RequestLimitExceeded|TooManyRequestsException|SlowDown)$/;

/** The error's name as AWS or the SDK gives it. */
export function failureName(failure: unknown): string {
  return failure instanceof Error ? failure.name : "";
}

/** Why the call of this action ("ec2:DescribeInstances") gave nothing. */
export function cannotCall(action: string, failure: unknown): CannotCheck {
  if (failure instanceof CannotCheck) return failure;
  const [name, message] = [failureName(failure), failure instanceof Error ? failure.message : String(failure)];
  if (NO_CREDENTIALS.test(name) || NO_CREDENTIALS.test(message))
    return new CannotCheck(
      "there are no AWS credentials",
      "log in (aws sso login, or AWS_PROFILE), and run preflight again",
    );
  if (BAD_CREDENTIALS.test(name))
    return new CannotCheck(`AWS does not take the credentials (${name})`, "log in again, and run preflight again");
  if (DENIED.test(name))
    return new CannotCheck(`these credentials may not call ${action}`, `allow the IAM action ${action}`);
  if (THROTTLED.test(name))
    return new CannotCheck(`AWS answers too many calls of ${action} with ${name}`, "run preflight again in a minute");
  if (isNetworkFailure(failure))
    return new CannotCheck(`AWS cannot be reached (${action})`, "run preflight where the AWS APIs can be reached");
  return new CannotCheck(
    `${action} failed: ${name ? `${name}: ` : ""}${firstLine(message)}`,
    `see whether \`aws ${cliName(action)}\` works with the same credentials`,
  );
}

const firstLine = (text: string) => (text.split("\n")[0] ?? "").slice(0, 200);

/** "ec2:DescribeInstances" → "ec2 describe-instances". */
function cliName(action: string): string {
  const [service = "", call = ""] = action.split(":");
  return `${service === "servicequotas" ? "service-quotas" : service} ${call.replace(/(?<=[a-z])(?=[A-Z])/g, "-").toLowerCase()}`;
}
