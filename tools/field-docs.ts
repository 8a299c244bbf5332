/**
 * Schema files → the comment of each field, so that JSON Schemas (and with them editors and docs/recipe-reference.md)
 * say what the source says. Zod knows no comments; the source is read with TypeScript's parser.
 */
import ts from "typescript";

/** Comments of one object's fields, by key. */
type Fields = Map<string, string>;

/** Objects are found again in a JSON Schema by the set of their keys. */
const signatureOf = (keys: Iterable<string>) => [...keys].sort().join(" ");

/** Comments of every object literal in schema files, by the set of its keys. */
export class FieldDocs {
  private readonly objects = new Map<string, Fields>();

  /** Reads one file's text. */
  add(text: string): void {
    const file = ts.createSourceFile("schema.ts", text, ts.ScriptTarget.Latest, true);
    const named = new Map<string, ts.ObjectLiteralExpression>();
    const visit = (node: ts.Node): void => {
      if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer)
        if (ts.isObjectLiteralExpression(node.initializer)) named.set(node.name.text, node.initializer);
      if (ts.isObjectLiteralExpression(node)) {
        const [signature, fields] = this.fieldsOf(node, named);
        // A value with the same keys (a default) has no comments.
        if (fields.size > (this.objects.get(signature)?.size ?? -1)) this.objects.set(signature, fields);
      }
      ts.forEachChild(node, visit);
    };
    visit(file);
  }

  private fieldsOf(node: ts.ObjectLiteralExpression, named: Map<string, ts.ObjectLiteralExpression>): [string, Fields] {
    const keys = new Set<string>();
    const fields: Fields = new Map();
    for (const property of node.properties) {
      if (ts.isSpreadAssignment(property)) {
        const spread = ts.isIdentifier(property.expression) ? named.get(property.expression.text) : undefined;
        if (!spread) continue;
        const [signature, inherited] = this.fieldsOf(spread, named);
        for (const key of signature.split(" ")) keys.add(key);
        for (const [key, doc] of inherited) fields.set(key, doc);
        continue;
      }
      if (!property.name || !(ts.isIdentifier(property.name) || ts.isStringLiteral(property.name))) continue;
      const key = property.name.text;
      keys.add(key);
      const doc = commentOf(property);
      if (doc) fields.set(key, doc);
    }
    return [signatureOf(keys), fields];
  }

  /** Writes each field's comment into a JSON Schema, as its description. Returns paths of fields without one. */
  describe(schema: unknown, path = ""): string[] {
    if (Array.isArray(schema)) return schema.flatMap((item) => this.describe(item, path));
    if (typeof schema !== "object" || schema === null) return [];
    const node = schema as Record<string, unknown>;
    const missing: string[] = [];
    const properties = node.properties as Record<string, Record<string, unknown>> | undefined;
    if (properties) {
      const fields = this.objects.get(signatureOf(Object.keys(properties)));
      for (const [key, property] of Object.entries(properties)) {
        const doc = fields?.get(key);
        if (doc) property.description = doc;
        else if (!("const" in property)) missing.push(path ? `${path}.${key}` : key);
        missing.push(...this.describe(property, path ? `${path}.${key}` : key));
      }
    }
    for (const key of ["anyOf", "oneOf", "items", "additionalProperties"])
      if (node[key]) missing.push(...this.describe(node[key], path));
    return missing;
  }
}

/** The text of the comment before a property, in one line. */
function commentOf(property: ts.ObjectLiteralElementLike): string {
  const comments = ts.getJSDocCommentsAndTags(property);
  const text = comments.map(({ comment }) => (typeof comment === "string" ? comment : "")).join(" ");
  return text.replace(/\s+/g, " ").trim();
}
