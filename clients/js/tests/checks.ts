/** What a check is: a name and something that throws; the same ones run in Node and in a browser. */

export interface Check {
  name: string;
  run: () => void | Promise<void>;
}

export function equal(actual: unknown, expected: unknown, what: string): void {
  const [left, right] = [actual, expected].map(text);
  if (left !== right) throw new Error(`${what}: ${String(left).slice(0, 400)} instead of ${String(right).slice(0, 400)}`);
}

function text(value: unknown): string | undefined {
  return JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? `${part}n` : part));
}

/** Message of what is thrown, null if nothing is. */
export async function refusal(run: () => unknown): Promise<string | null> {
  try {
    await run();
    return null;
  } catch (problem) {
    if (problem instanceof Error) return problem.message;
    throw problem;
  }
}
