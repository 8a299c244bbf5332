/** Work that waits for its turn. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { Turns } from "./turns.ts";

it("never runs more at a time than it has places, runs all, starts them in order, and gives places back after failures", async () => {
  const plan = fc.array(fc.record({ ticks: fc.integer({ min: 0, max: 5 }), fails: fc.boolean() }), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 4 }), plan, async (places, works) => {
      const turns = new Turns(places);
      const started: number[] = [];
      let running = 0;
      const all = await Promise.allSettled(
        works.map(({ ticks, fails }, index) =>
          turns.run(async () => {
            started.push(index);
            running += 1;
            expect(running).toBeLessThanOrEqual(places);
            for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
            running -= 1;
            if (fails) throw new Error("failed");
            return index;
          }),
        ),
      );
      expect(started).toEqual(works.map((_, index) => index));
      expect(all.map(({ status }) => status === "rejected")).toEqual(works.map(({ fails }) => fails));
    }),
  );
});
