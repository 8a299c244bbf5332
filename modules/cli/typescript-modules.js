// A hook of Node's module loader: every .ts file is an ECMAScript module, whatever package.json it lies beside.
export async function resolve(specifier, context, next) {
  const found = await next(specifier, context);
  const { pathname } = new URL(found.url);
  return pathname.endsWith(".ts") ? { ...found, format: "module" } : found;
}
