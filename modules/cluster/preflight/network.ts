/**
 * Network: tells a failure of the network from an answer. Pure.
 */

const CODES =
  /^(ENOTFOUND|EAI_AGAIN|EAI_FAIL|ECONNREFUSED|ECONNRESET|ECONNABORTED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|UND_ERR_[A-Z_]+)$/;

/** Whether nobody answered: no address, no connection, no answer in time, or somebody else's certificate. */
export function isNetworkFailure(failure: unknown): boolean {
  if (!(failure instanceof Error)) return false;
  const code = "code" in failure ? String(failure.code) : "";
  return (
    CODES.test(code) ||
    /^(TimeoutError|AbortError)$/.test(failure.name) ||
    /^(CERT_|ERR_TLS_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/.test(code) ||
    (failure.cause !== undefined && isNetworkFailure(failure.cause)) ||
    (failure instanceof AggregateError && failure.errors.some(isNetworkFailure))
  );
}
