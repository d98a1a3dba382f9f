/** Accounts where they are kept: the same check for a file in Node and for IndexedDB in a browser. */

import type { Account } from "../src/account/account.js";
import { hex } from "../src/public/bytes.js";
import { Coins } from "../src/public/coins.js";
import { Fraction } from "../src/public/fraction.js";
import { equal, refusal, type Check } from "./checks.js";

export function accountChecks(kind: string, open: (budget: string) => Promise<Account>): Check[] {
  return [
    {
      name: `an account in ${kind} keeps one answer, whoever asks at the same time, and is there again afterwards`,
      async run() {
        const [one, two] = [await open("4"), await open("4")];
        let drawn = 0;
        const fresh = (): Uint8Array => {
          drawn++;
          return new Coins().take(16);
        };
        const asked = [one, two, one, two].map((account) => account.remembered("question", new Fraction(3), fresh));
        const answers = await Promise.all(asked);
        equal(new Set(answers.map(hex)).size, 1, "answers");
        equal(drawn, 1, "drawn");
        const again = await open("4");
        equal(await again.spent(), "3", "spent");
        equal(await again.keeps("question"), true, "kept");
        const said = await refusal(() => again.remembered("other", new Fraction(2), fresh));
        equal(said, "this device has 1 of its epsilon left and a report takes 2: nothing was reported", "budget");
        equal((await refusal(async () => (await open("5")).spent()))?.includes("made with a budget of 4"), true, "other");
      },
    },
    {
      name: `what goes wrong while an answer is drawn leaves an account in ${kind} as it was`,
      async run() {
        const account = await open("4");
        const before = await account.spent();
        const broken = (): Promise<Uint8Array> => Promise.reject(new Error("no coins"));
        equal((await refusal(() => account.remembered("third", new Fraction(1), broken)))?.includes("no coins"), true, "said");
        equal(await account.spent(), before, "spent");
        equal(await account.keeps("third"), false, "kept");
        await account.remembered("third", new Fraction(1), () => Uint8Array.of(1)); // and nothing is left locked
      },
    },
  ];
}
