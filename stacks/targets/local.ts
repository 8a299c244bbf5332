/** This machine: two jobs at once, everything under .uplift. Copy this file to change ports, folder or server. */
import { localTarget } from "../../schemas/target.ts";

export default localTarget({
  name: "local",
  // A number and not the machine's: the same recipe on the same target is the same plan everywhere.
  slots: 2,
});
