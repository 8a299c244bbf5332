/** Accounting size: the database of Slurm's accounting of a few hundred nodes. Made, counted against quotas and priced by this. */
export const ACCOUNTING_SIZE = { instanceClass: "db.t4g.medium", gib: 20 } as const;
