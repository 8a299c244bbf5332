/**
 * Report → text: one part an area; what is wrong has what is wanted and what to do below it. Pure.
 */

import { shortDigest } from "../../../schemas/digest.ts";
import type { Finding, FindingArea, PreflightReport } from "../../../schemas/finding.ts";

/** Width of the page, as of `uplift plan`. */
const WIDTH = 118;
const STATUS_WIDTH = 10;
const MOST_SUBJECT = 46;

const HEADINGS: Record<FindingArea, string> = {
  ...{ plans: "Plans", machine: "This machine", secrets: "Secrets", aws: "AWS", kubernetes: "Kubernetes" },
  images: "Images",
};

/** The page `uplift preflight` prints. */
export function renderPreflight(report: PreflightReport): string {
  const plans = report.plans.map(({ name, digest }) => `${name} ${shortDigest(digest)}`).join(", ");
  const areas = (Object.keys(HEADINGS) as FindingArea[])
    .map((area) => ({ area, findings: report.findings.filter((finding) => finding.area === area) }))
    .filter(({ findings }) => findings.length > 0);
  const lines = [
    `Preflight of ${report.target}${plans ? ` for ${plans}` : ""}`,
    ...areas.flatMap(({ area, findings }) => ["", HEADINGS[area], ...areaLines(findings)]),
    "",
    summary(report),
  ];
  return `${lines.join("\n")}\n`;
}

/** "2 errors, 1 warning, 3 unchecked, 20 ok". */
export function summary({ counts }: PreflightReport): string {
  const words = [
    counts.error > 0 && (counts.error === 1 ? "1 error" : `${counts.error} errors`),
    counts.warning > 0 && (counts.warning === 1 ? "1 warning" : `${counts.warning} warnings`),
    counts.unchecked > 0 && `${counts.unchecked} unchecked`,
    counts.later > 0 && `${counts.later} for \`up\` to find out`,
    `${counts.ok} ok`,
  ];
  return words.filter((word) => word !== false).join(", ");
}

function areaLines(findings: readonly Finding[]): string[] {
  const longest = Math.max(...findings.map(({ subject }) => subject.length));
  const width = Math.min(MOST_SUBJECT, longest) + 2;
  return together(findings).flatMap(({ subjects, finding }) => {
    const status = `  ${finding.status.padEnd(STATUS_WIDTH)}`;
    const indent = " ".repeat(status.length);
    const details =
      finding.status === "ok"
        ? []
        : [
            ...(finding.status === "unchecked" || finding.status === "later"
              ? []
              : wrapped(`wanted: ${finding.wanted}`, `${indent}  `)),
            ...wrapped(`to do:  ${finding.todo}`, `${indent}  `),
          ];
    const [only = ""] = subjects;
    if (subjects.length === 1 && only.length <= width - 2 && width + finding.found.length + status.length <= WIDTH)
      return [`${status}${only.padEnd(width)}${finding.found}`, ...details];
    return [...wrapped(subjects.join(", "), status, indent), ...wrapped(finding.found, `${indent}  `), ...details];
  });
}

/** What could not be looked at for one and the same reason is told once. */
function together(findings: readonly Finding[]): { subjects: string[]; finding: Finding }[] {
  const rows: { subjects: string[]; finding: Finding }[] = [];
  for (const finding of findings) {
    const same =
      finding.status === "unchecked"
        ? rows.find(
            (row) =>
              row.finding.status === "unchecked" &&
              row.finding.found === finding.found &&
              row.finding.todo === finding.todo,
          )
        : undefined;
    if (same) same.subjects.push(finding.subject);
    else rows.push({ subjects: [finding.subject], finding });
  }
  return rows;
}

/** Text in lines of the page's width; a word that is longer, a command say, stays whole. */
function wrapped(text: string, first: string, rest = `${first}  `): string[] {
  const lines: string[] = [];
  let line = first;
  let empty = true;
  for (const word of text.split(" ")) {
    if (!empty && line.length + word.length + 1 > WIDTH) {
      lines.push(line);
      line = rest;
      empty = true;
    }
    line += empty ? word : ` ${word}`;
    empty = false;
  }
  return [...lines, line];
}
