// pg-boss: batches fetched without a pause while they come back full, woken by NOTIFY; done jobs are kept, and count as
// gone.

import pg from "pg";
import { PgBoss } from "pg-boss";

import { serve } from "./serving.mjs";

const QUEUE = "bench";
const BATCH = 1000;

await serve({
  async open(url) {
    this.pool = new pg.Pool({ connectionString: url });
    this.boss = new PgBoss({ connectionString: url, useListenNotify: true, schedule: false });
    this.boss.on("error", (problem) => console.error(problem));
    await this.boss.start();
  },

  async create() {
    await this.boss.createQueue(QUEUE, { notify: true });
  },

  async enqueue(body) {
    await this.boss.send(QUEUE, body);
  },

  async enqueueMany(bodies) {
    await this.boss.insert(QUEUE, bodies.map((data) => ({ data })));
  },

  async work(meter) {
    // Four drain faster than one, and get in each other's way when there is little to do.
    const localConcurrency = meter.loaded ? 4 : 1;
    const options = { batchSize: BATCH, burstWhenBatchFull: true, localConcurrency };
    meter.start();
    await this.boss.work(QUEUE, options, async (jobs) => {
      for (const job of jobs) meter.handle(job.data);
    });
    await meter.done();
    await this.boss.offWork(QUEUE);
  },

  async left() {
    const query = "SELECT count(*)::int AS jobs FROM pgboss.job WHERE state < 'completed'";
    return (await this.pool.query(query)).rows[0].jobs;
  },

  async close() {
    await this.boss.stop({ graceful: true });
    await this.pool.end();
  },
});
