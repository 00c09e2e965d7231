// Takes the pictures of docs/images. See doc.go.
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { attempt, say } from './check.mjs';

const plan = JSON.parse(readFileSync(0, 'utf8'));
const open = plan.open + '/console/';
const wide = { width: 1280, height: 800 };

// allow asks n times for a key of a limit.
async function allow(namespace, limit, key, n) {
  for (let i = 0; i < n; i++) {
    await fetch(plan.open + '/v1/allow', { method: 'POST', body: JSON.stringify({ namespace, limit, key }) });
  }
}

// Some tenants ask for more than others, and one client for more than it may.
async function ask() {
  const all = [allow('web', 'per_client', 'client-0', 4), allow('mail', 'per_sender', 'billing@shop.example', 1)];
  for (let i = 0; i < 8; i++) all.push(allow('api', 'per_tenant', 'tenant-' + i, Math.ceil(8 / (i + 1))));
  await Promise.all(all);
}
const traffic = setInterval(() => { ask().catch(() => {}); }, 250);
const browser = await chromium.launch({ executablePath: plan.chromium, args: ['--no-sandbox', '--disable-dev-shm-usage'] });

async function picture(name, path, { size = wide, scheme = 'light', wait = 2500, full = false, site = open, before = async () => {} } = {}) {
  await attempt(name, async () => {
    const ctx = await browser.newContext({ viewport: size, colorScheme: scheme, ignoreHTTPSErrors: true });
    try {
      const page = await ctx.newPage();
      await page.goto(site + path);
      await page.waitForSelector('main h1');
      await before(page);
      await page.waitForTimeout(wait);
      await page.screenshot({ path: `${plan.pictures}/console-${name}.png`, fullPage: full });
    } finally {
      await ctx.close();
    }
  });
}

await new Promise((go) => setTimeout(go, plan.warm)); // charts need a past
await picture('overview', '', { wait: 20_000 });
await picture('phone', '', { size: { width: 390, height: 844 }, scheme: 'dark', wait: 5000 });
await picture('nodes', 'nodes');
await picture('limits', 'limits');
await picture('limit', 'limit?namespace=api&limit=per_tenant', { size: { width: 1280, height: 800 }, full: true, wait: 5000 });
await picture('key', 'key?namespace=web&limit=per_client&key=client-0', { wait: 5000 });
await picture('edit', 'edit?namespace=web&limit=login', {
  size: { width: 1280, height: 800 },
  before: async (page) => {
    await page.fill('.editor textarea', 'login:\n  rate: 5/m\n  burst: many\n  ceiling: hard\n');
    await page.locator('#faults .bad').waitFor();
  },
});
await picture('versions', 'versions');
await picture('accounts', 'accounts?app=shop&realm=project:web');
await picture('events', 'events', { wait: 4000 });
await picture('settings', 'settings');
await picture('access', 'access');
await picture('audit', 'audit');
await picture('change', 'nodes', {
  size: { width: 1280, height: 560 }, wait: 500,
  before: async (page) => {
    await page.click('button[aria-label="Drain n2"]');
    await page.locator('#dialog [data-step="confirm"]').waitFor();
  },
});
await picture('sign-in', 'nodes', { size: { width: 760, height: 420 }, site: plan.secured + '/console/' });

clearInterval(traffic);
await browser.close();
say('the end', true);
