/**
 * The recipe's JSON Schema → docs/recipe-reference.md: every field with its type, default and meaning.
 */
type Schema = Record<string, unknown>;

const HEAD = `# Every field of a recipe

Made from [schemas/recipe.ts](../schemas/recipe.ts) by \`npm run generate\`; do not edit. A field without a default has to be
written. The same names are used in TypeScript and in YAML; a list's entries are written \`[]\`. Fields that only one kind of
their block has are marked with that kind.
`;

const SECTIONS: readonly [string, string][] = [
  ["tasks", "Tasks and split"],
  ["expert", "Expert"],
  ["sft", "SFT (`sftThenRl` only)"],
  ["rl", "RL"],
  ["rope", "Longer contexts"],
  ["report", "Reported checkpoints"],
  ["evaluation", "Evaluation preset"],
];

/** The page. */
export function recipeReference(schema: Schema): string {
  const branches = (schema.oneOf ?? schema.anyOf) as Schema[];
  const widest = branches.reduce((a, b) => (propertiesOf(a).length >= propertiesOf(b).length ? a : b));
  const rows = rowsOf(widest, "");
  const parts = [
    HEAD,
    ...table(
      "Top level",
      rows.filter(({ path }) => !SECTIONS.some(([name]) => under(path, name))),
    ),
  ];
  for (const [name, title] of SECTIONS)
    parts.push(
      ...table(
        title,
        rows.filter(({ path }) => under(path, name)),
      ),
    );
  return `${parts.join("\n").trimEnd()}\n`;
}

interface Row {
  readonly path: string;
  readonly type: string;
  readonly fallback: string;
  readonly meaning: string;
}

const under = (path: string, name: string) =>
  path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`);
const propertiesOf = (schema: Schema) => Object.entries((schema.properties ?? {}) as Record<string, Schema>);

function rowsOf(schema: Schema, prefix: string, only = ""): Row[] {
  const required = new Set((schema.required ?? []) as string[]);
  return propertiesOf(schema).flatMap(([key, property]): Row[] => {
    const path = prefix ? `${prefix}.${key}` : key;
    const described = typeof property.description === "string" ? property.description : "";
    const meaning = only ? `(${only}) ${described}`.trim() : described;
    const row = { path, type: typeOf(property), fallback: fallbackOf(property, required.has(key)), meaning };
    return [row, ...below(property, path)];
  });
}

/** Rows of the fields inside a field; a field that several branches share is listed once. */
function below(property: Schema, path: string): Row[] {
  if (property.items) return rowsOf(property.items as Schema, `${path}[]`);
  const branches = ((property.oneOf ?? property.anyOf) as Schema[] | undefined)?.filter((branch) => branch.properties);
  if (!branches || branches.length === 0) return rowsOf(property, path);
  const seen = new Set<string>();
  return branches.flatMap((branch) => {
    const kind = propertiesOf(branch).find(([, value]) => "const" in value)?.[1].const;
    return rowsOf(branch, path, String(kind ?? "")).filter((row) => {
      const key = row.path + row.type + row.meaning.replace(/^\([^)]*\) /, "");
      const known = seen.has(key);
      seen.add(key);
      return !known;
    });
  });
}

function typeOf(property: Schema): string {
  if ("const" in property) return `\`${JSON.stringify(property.const)}\``;
  if (Array.isArray(property.enum)) return property.enum.map((value) => `\`${JSON.stringify(value)}\``).join(" or ");
  const branches = (property.oneOf ?? property.anyOf) as Schema[] | undefined;
  if (branches) return branches.some((branch) => branch.properties) ? "block" : branches.map(typeOf).join(" or ");
  if (property.type === "object") return property.properties ? "block" : "keys and values";
  if (property.type === "array") return "list";
  return `${property.type === "integer" ? "whole number" : property.type}${boundsOf(property)}`;
}

function boundsOf(property: Schema): string {
  const low = property.exclusiveMinimum ?? property.minimum;
  const high = property.exclusiveMaximum ?? property.maximum;
  const parts: string[] = [];
  if (typeof low === "number" && low > Number.MIN_SAFE_INTEGER)
    parts.push(`${"exclusiveMinimum" in property ? ">" : "≥"} ${low}`);
  if (typeof high === "number" && high < Number.MAX_SAFE_INTEGER)
    parts.push(`${"exclusiveMaximum" in property ? "<" : "≤"} ${high}`);
  return parts.length > 0 ? ` ${parts.join(", ")}` : "";
}

function fallbackOf(property: Schema, required: boolean): string {
  if ("default" in property) return `\`${JSON.stringify(property.default)}\``;
  return required ? "**needed**" : "–";
}

function table(title: string, rows: readonly Row[]): string[] {
  const cell = (text: string) => text.replaceAll("|", "\\|");
  return [
    `\n## ${title}\n`,
    "| field | type | default | meaning |",
    "| --- | --- | --- | --- |",
    ...rows.map(
      ({ path, type, fallback, meaning }) => `| \`${path}\` | ${cell(type)} | ${cell(fallback)} | ${cell(meaning)} |`,
    ),
  ];
}
