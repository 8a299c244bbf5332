/**
 * Observability: monitors, alerts and one dashboard, for clusters whose target says `prometheus: true`. In: a target.
 * Out: Kubernetes objects as data, none where the Prometheus operator's kinds are not there.
 */
import type { Manifest } from "../../../schemas/manifest.ts";
import type { PlatformTarget } from "../../../schemas/target.ts";
import { alertRules } from "./alerts.ts";
import { dashboardManifest } from "./dashboard.ts";
import { serviceMonitors } from "./monitors.ts";

export function observabilityManifests({ target }: { readonly target: PlatformTarget }): Manifest[] {
  if (!target.platform.prometheus) return [];
  return [...serviceMonitors(target), alertRules(), dashboardManifest()];
}
