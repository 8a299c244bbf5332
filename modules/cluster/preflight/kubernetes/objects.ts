/**
 * Objects: the parts of Kubernetes' answers that preflight reads, and its quantities as numbers. Pure.
 */

export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface Node {
  readonly metadata: Metadata;
  readonly spec?: {
    readonly unschedulable?: boolean;
    readonly taints?: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
  };
  readonly status?: {
    readonly allocatable?: Readonly<Record<string, string>>;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

export interface Crd {
  readonly metadata: Metadata;
  readonly spec: { readonly versions: readonly { readonly name: string; readonly served: boolean }[] };
}

const UNITS: Readonly<Record<string, number>> = {
  ...{ "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 },
  ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 },
};

/** By division, which rounds as the text means it. */
const PARTS: Readonly<Record<string, number>> = { n: 1e9, u: 1e6, m: 1e3 };

/** "191450m" → 191.45, "2Gi" → 2147483648, "1e3" → 1000; NaN for anything else. */
export function quantity(text: string): number {
  const exponent = /^([+-]?[\d.]+)[eE]([+-]?\d+)$/.exec(text);
  if (exponent) return Number(text);
  const [, number, unit = ""] = /^([+-]?[\d.]+)([numkMGTPE]|[KMGTPE]i)?$/.exec(text) ?? [];
  if (number === undefined) return Number.NaN;
  const part = PARTS[unit];
  return part === undefined ? Number(number) * (UNITS[unit] ?? Number.NaN) : Number(number) / part;
}
