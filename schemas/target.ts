/**
 * Target: where a plan runs. A recipe says what, a target says on what; a target swaps infrastructure, scheduler,
 * trainer and server, and stores, and nothing else. One file a target in stacks/targets/.
 */
import { z } from "zod";
import { ServerKind } from "./endpoint.ts";

export const LocalTarget = z.strictObject({
  kind: z.literal("local"),
  name: z.string(),
  /** Folder for state, stores, logs; relative to the project. Default ".uplift". */
  home: z.string().default(".uplift"),
  /** Jobs and endpoints that run at once; default one a core. */
  slots: z.number().int().positive(),
  /** OpenMP threads a job; 1 by default: two threads on busy cores are far slower than one (measured). */
  threads: z.number().int().positive().default(1),
  /** Loopback ports. */
  controllerPort: z.number().int().min(1024).max(65535).default(7600),
  environmentsPort: z.number().int().min(1024).max(65535).default(7601),
  /** Server of endpoints; a recipe's preset is measured on this kind. */
  server: ServerKind.default("vllm"),
  /** An endpoint ends by itself after this many hours. */
  endpointHours: z.number().positive().default(2),
});
export type LocalTarget = z.infer<typeof LocalTarget>;

/** Kubernetes and AWS are further members of this union. */
export const Target = z.discriminatedUnion("kind", [LocalTarget]);
export type Target = z.infer<typeof Target>;
