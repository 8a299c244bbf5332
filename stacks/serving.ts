/**
 * Pulumi program of one endpoint: its spec and the command that serves it → one process that ends at its expiry.
 * Exports `endpoint` (EndpointSpec).
 */
import { z } from "zod";
import { LocalProcess } from "../modules/cluster/component.ts";
import { EndpointSpec } from "../schemas/endpoint.ts";

/** What serves a model; modules/serving renders it from the spec. */
export const ServingCommand = z.object({
  command: z.string(),
  args: z.array(z.string()),
  env: z.record(z.string(), z.string()),
  healthUrl: z.string(),
  readySeconds: z.number().positive(),
});
export type ServingCommand = z.infer<typeof ServingCommand>;

/** An endpoint's stack is made from these two; they are kept beside its state, so that a half-made one is known too. */
export const ServingStackArgs = z.object({ spec: EndpointSpec, serving: ServingCommand });
export type ServingStackArgs = z.infer<typeof ServingStackArgs>;

/** The program of one endpoint. */
export function servingStack({ spec, serving }: ServingStackArgs, home: string) {
  return async () => {
    new LocalProcess({
      ...serving,
      name: spec.name,
      home,
      cwd: ".",
      logPath: `${home}/logs/${spec.name}.log`,
      port: spec.port,
      stopSeconds: 20,
      expiresAt: spec.expiresAt,
    });
    return { endpoint: spec };
  };
}
