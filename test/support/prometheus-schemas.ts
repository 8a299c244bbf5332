/**
 * The fields of the Prometheus operator's kinds that we use, unknown ones refused. Written down from its API (monitoring.coreos.com/v1,
 * pkg/apis/monitoring/v1 at v0.89): its CRD files are in no registry that the tests can reach. Stricter than the operator,
 * which has many more fields.
 */
import { z } from "zod";

const Labels = z.record(z.string(), z.string());
const Duration = z.string().regex(/^(\d+h)?(\d+m)?(\d+s)?$/);
const Metadata = z.strictObject({ name: z.string(), namespace: z.string(), labels: Labels });

const Relabeling = z.strictObject({
  sourceLabels: z.array(z.string()).optional(),
  regex: z.string().optional(),
  targetLabel: z.string().optional(),
  replacement: z.string().optional(),
  action: z.enum(["replace", "keep", "drop", "labelmap", "labeldrop", "labelkeep"]).optional(),
});

const ServiceMonitor = z.strictObject({
  apiVersion: z.literal("monitoring.coreos.com/v1"),
  kind: z.literal("ServiceMonitor"),
  metadata: Metadata,
  spec: z.strictObject({
    selector: z.strictObject({
      matchLabels: Labels.optional(),
      matchExpressions: z
        .array(
          z.strictObject({
            key: z.string(),
            operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]),
            values: z.array(z.string()).optional(),
          }),
        )
        .optional(),
    }),
    namespaceSelector: z
      .strictObject({ any: z.boolean().optional(), matchNames: z.array(z.string()).optional() })
      .optional(),
    targetLabels: z.array(z.string()).optional(),
    endpoints: z
      .array(
        z.strictObject({
          port: z.string(),
          path: z.string().startsWith("/").optional(),
          scheme: z.enum(["http", "https"]).optional(),
          interval: Duration.optional(),
          scrapeTimeout: Duration.optional(),
          authorization: z
            .strictObject({ type: z.string(), credentials: z.strictObject({ name: z.string(), key: z.string() }) })
            .optional(),
          honorLabels: z.boolean().optional(),
          relabelings: z.array(Relabeling).optional(),
          metricRelabelings: z.array(Relabeling).optional(),
        }),
      )
      .min(1),
  }),
});

const PrometheusRule = z.strictObject({
  apiVersion: z.literal("monitoring.coreos.com/v1"),
  kind: z.literal("PrometheusRule"),
  metadata: Metadata,
  spec: z.strictObject({
    groups: z.array(
      z.strictObject({
        name: z.string().min(1),
        interval: Duration.optional(),
        rules: z.array(
          z.strictObject({
            alert: z.string().regex(/^[A-Za-z][A-Za-z0-9]*$/),
            expr: z.string().min(1),
            for: Duration.optional(),
            labels: Labels.optional(),
            annotations: Labels.optional(),
          }),
        ),
      }),
    ),
  }),
});

const KINDS = { ServiceMonitor, PrometheusRule };

/** The check of a kind of the Prometheus operator; null for kinds of others. */
export function prometheusKind(apiVersion: string, kind: string): z.ZodType | null {
  if (apiVersion !== "monitoring.coreos.com/v1") return null;
  return kind in KINDS ? KINDS[kind as keyof typeof KINDS] : z.never(`no check of the kind ${kind}`);
}
