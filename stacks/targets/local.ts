/** This machine: one slot a core, everything under .uplift. Copy this file to change ports, folder or server. */
import { availableParallelism } from "node:os";
import { LocalTarget } from "../../schemas/target.ts";

export default LocalTarget.parse({
  kind: "local",
  name: "local",
  slots: availableParallelism(),
});
