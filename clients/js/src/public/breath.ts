/** Let the page breathe in between: long reckonings call this often, and it waits now and then. */

const AT_ONCE = 40; // milliseconds

let last = 0;

export async function breath(): Promise<void> {
  if (performance.now() - last < AT_ONCE) return;
  await new Promise((done) => setTimeout(done));
  last = performance.now();
}
