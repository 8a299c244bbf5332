/**
 * Web: a public name on AWS needs a controller of its ingress class before `up` makes the Ingress, or `up` waits for it in vain.
 */
import type { Web } from "../../../../schemas/platform.ts";
import { ALB } from "../../../../schemas/platform.ts";
import { type Check, error, ok } from "../check.ts";
import type { AwsApi } from "./api.ts";

/** The platform installs the one of "alb"; another one can be there only once the cluster is. */
export function ingressControllerCheck(api: Pick<AwsApi, "eksCluster">, { ingressClass }: Web, cluster: string): Check {
  return {
    ...{ area: "aws", name: "ingress", subject: `ingress class ${ingressClass}` },
    async run() {
      const wanted = "a controller of that class";
      if (ingressClass === ALB) return ok({ found: "installed by the platform", wanted });
      // In a cluster that is there it is looked for by its name.
      if ((await api.eksCluster(cluster)) !== null) return [];
      return error({
        ...{ found: "the cluster is not made yet, so there is none", wanted },
        todo: `use ingressClass "${ALB}" with a certificate of ACM; or run the first \`up\` without platform.web, install the controller, then add it`,
      });
    },
  };
}
