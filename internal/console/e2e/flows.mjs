// Reads a plan from standard input, drives the console in Chromium, and prints one verdict
// a line. See doc.go.
import { readFileSync, mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { attempt, axe, fits, keyboard, listen, must, say } from './check.mjs';
import { owners, readers } from './owners.mjs';

const plan = JSON.parse(readFileSync(0, 'utf8'));
const open = plan.open + '/console/';

// pages are all that there are, with an address that shows something. A page in the
// navigation that is not here fails.
const pages = {
  overview: { path: '', live: true },
  nodes: { path: 'nodes', live: true },
  limits: { path: 'limits' },
  edit: { path: 'edit?namespace=web' },
  versions: { path: 'versions' },
  limit: { path: 'limit?namespace=web&limit=per_client', live: true },
  keys: { path: 'key' },
  realms: { path: 'accounts' },
  accounts: { path: 'accounts?app=shop&realm=project:e2e' },
  account: { path: 'account?id=shop~project:e2e~user:ann~~pool~builds', live: true },
  policies: { path: 'policies?app=shop&realm=project:e2e' },
  configs: { path: 'policies' },
  policy: { path: 'policies?app=shop&realm=project:e2e&version=%232026-11' },
  key: { path: 'key?namespace=web&limit=per_client&key=client+%3Cb%3E1', live: true },
  events: { path: 'events', live: true, busy: true },
  settings: { path: 'settings' },
  access: { path: 'access' },
  audit: { path: 'audit' },
};

// The sandbox of Chromium needs rights that a container may lack; the pages are our own.
const browser = await chromium.launch({ executablePath: plan.chromium, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
const forms = {
  light: { viewport: { width: 1280, height: 800 }, colorScheme: 'light' },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: 'light', hasTouch: true },
};

// seen is what a page shows when a check of it has failed.
async function seen(page) {
  const read = page.evaluate(() => [...document.querySelectorAll('#trouble, dialog[open], main')].map((e) => e.innerText).join(' | ')).catch((e) => e.message);
  const text = await Promise.race([read, new Promise((give) => setTimeout(give, 5000, 'no answer'))]);
  return `${page.url()} shows: ${text.replace(/\s+/g, ' ').slice(0, 800)}`;
}

async function visit(form, f, more = {}, expected = undefined) {
  const ctx = await browser.newContext({ ...forms[form], ...more });
  try {
    const page = await ctx.newPage();
    page.setDefaultTimeout(60_000); // beside other tests, which go first
    const wrong = listen(page, expected);
    try {
      await f(page, ctx);
    } catch (e) {
      e.message += `\n${await seen(page)}\n${wrong.join('\n')}`;
      throw e;
    }
    must(wrong.length === 0, wrong.join('\n'));
  } finally {
    await ctx.close();
  }
}

// ask makes some traffic, so that there is something to see.
async function ask(times = 40) {
  for (let i = 0; i < times; i++) {
    await fetch(plan.open + '/v1/allow', { method: 'POST', body: JSON.stringify({ namespace: 'web', limit: 'per_client', key: 'client <b>' + (i % 5) }) });
  }
}
const traffic = setInterval(() => { ask(10).catch(() => {}); }, 300);

await attempt('the root leads to the console', () => visit('light', async (page) => {
  await page.goto(plan.open + '/');
  must(page.url() === open, page.url());
}));

await attempt('every page is known here', () => visit('light', async (page) => {
  await page.goto(open);
  const there = await page.$$eval('#nav a', (all) => all.map((a) => new URL(a.href).pathname.replace('/console/', '')));
  const known = Object.values(pages).map((p) => p.path.split('?')[0]);
  must(there.length > 3 && there.every((p) => known.includes(p)), `${there} of which ${known} are tested`);
}));

// What a dead node adds to the pages is put there by hand: all nodes of this cluster are in one process.
await attempt('the pages have room for a dead node', () => visit('light', async (page) => {
  await page.goto(open);
  await page.waitForSelector('.stat .d');
  await page.$$eval('.stat .d', (all) => all.forEach((e) => { e.innerHTML = '<span class="badge warn">not all are reachable from here</span>'; }));
  await fits(page);
  await page.goto(open + 'nodes');
  await page.waitForSelector('#t-nodes');
  const over = await page.evaluate(() => {
    document.querySelectorAll('#t-nodes td:nth-child(2)').forEach((e) => { e.innerHTML += '<div class="dim">16 ranges under-replicated</div>'; });
    const e = document.querySelector('#t-nodes').parentElement;
    return e.scrollWidth - e.clientWidth;
  });
  must(over <= 0, `the table of nodes is ${over} px too wide`);
}));

// full runs a check in full tests only. Quick ones look at each page in one form, and at the
// flows that most people use.
const full = plan.full ? attempt : () => {};

for (const [name, p] of Object.entries(pages)) {
  for (const form of Object.keys(forms)) {
    await (form === 'light' ? attempt : full)(`${name}, ${form}`, () => visit(form, async (page) => {
      await page.goto(open + p.path);
      await page.waitForSelector('main h1');
      if (p.live) await page.waitForTimeout(p.busy ? 1500 : plan.full ? 2500 : 500);
      must(await page.locator('#trouble').isHidden(), 'trouble: ' + await page.locator('#trouble').textContent());
      await fits(page);
      if (plan.full || ['overview', 'limit', 'key'].includes(name)) await axe(page);
      if (plan.shots) {
        mkdirSync(plan.shots, { recursive: true });
        await page.screenshot({ path: `${plan.shots}/${name}-${form}.png`, fullPage: !p.busy });
      }
      if (plan.full && form !== 'dark') {
        if (p.busy) await page.click('[data-pause]'); // new rows would push out those still to be reached
        if (form === 'phone') await page.click('[data-menu]');
        await keyboard(page);
        await fits(page);
      }
    }));
  }
}

await attempt('overview: figures change while the page is open', () => visit('light', async (page) => {
  await page.goto(open);
  const drawn = page.locator('.chart canvas');
  await drawn.waitFor();
  await page.waitForFunction(() => /[1-9]/.test([...document.querySelectorAll('.stat')].find((e) => e.textContent.includes('Admitted')).querySelector('.v').textContent));
  const keys = page.locator('#t-keys tbody tr');
  await keys.first().waitFor();
  must((await page.locator('#t-keys').textContent()).includes('client <b>'), 'a key with markup is shown as it is');
}));

// There was load while the pages above were looked at; of that pages of the overview saw some seconds.
await full('overview: the chart begins with the past', () => visit('light', async (page) => {
  const began = Date.now();
  let spec, known; // of before: these visits see some seconds as well
  do { // a busy machine may not answer within the second that a page waits
    await page.goto(open);
    spec = JSON.parse(await page.locator('#chart-flow').getAttribute('data-chart'));
    known = spec.series[0].values.filter((v, i) => v !== null && spec.times[i] * 1000 < began);
  } while (known.length < 20 && Date.now() < began + 60_000);
  must(known.length >= 20 && known.some((v) => v > 0), `${known.length} seconds at once: ${JSON.stringify(spec)}`);
  must(spec.times.every((t, i) => !i || t > spec.times[i - 1]), `times do not ascend: ${spec.times}`);
}));

await full('tables sort, and stay sorted while they change', () => visit('light', async (page) => {
  await page.goto(open);
  const head = page.locator('#t-nodes th', { hasText: 'Node' });
  const names = () => page.$$eval('#t-nodes tbody tr td:first-child b', (all) => all.map((e) => e.textContent).join());
  await head.locator('button').click();
  must(await names() === 'n1,n2,n3' && await head.getAttribute('aria-sort') === 'ascending', await names());
  await head.locator('button').click();
  must(await names() === 'n3,n2,n1' && await head.getAttribute('aria-sort') === 'descending', await names());
  await page.waitForTimeout(2500);
  must(await names() === 'n3,n2,n1', 'live: ' + await names());
}));

await full('theme: chosen, kept, and back to the system\'s', () => visit('light', async (page) => {
  await page.goto(open);
  const back = () => page.evaluate(() => getComputedStyle(document.body).getPropertyValue('--bg').trim());
  const light = await back();
  await page.click('[data-theme-toggle]');
  const dark = await back();
  must(dark !== light, dark);
  await page.reload();
  must(await back() === dark, 'after a reload');
  await axe(page);
  await page.click('[data-theme-toggle]');
  await page.click('[data-theme-toggle]');
  must(await page.locator('[data-theme-name]').textContent() === 'auto' && await back() === light, 'auto');
}));

await full('skip link leads to the content', () => visit('light', async (page) => {
  await page.goto(open);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  must(await page.evaluate(() => document.activeElement.id) === 'main', 'focus');
}));

// change opens the dialog of a change, looks at it, and goes through with it.
async function change(page, button, fields = {}) {
  await button.click();
  const dialog = page.locator('#dialog');
  await dialog.locator('[data-step]').waitFor();
  must(await dialog.evaluate((d) => d.open && d.contains(document.activeElement)), 'the dialog has the focus');
  await axe(page);
  await fits(page);
  for (const [name, value] of Object.entries(fields)) {
    const f = dialog.locator(`[name="${name}"]`);
    if (await f.evaluate((e) => e.tagName) === 'SELECT') await f.selectOption(value); else await f.fill(value);
  }
  await dialog.locator('.row.end button:not([data-close])').click();
  await dialog.locator('[data-step="result"]').waitFor();
  await axe(page);
  return dialog;
}
const done = (page) => Promise.all([page.waitForEvent('load'), page.click('[data-done]')]);

await full('a live part that comes while a dialog closes leaves it closed', () => visit('light', async (page) => {
  await page.goto(open + 'nodes');
  await page.click('button[aria-label="Drain n2"]');
  await page.locator('#dialog [data-step="confirm"]').waitFor();
  await page.evaluate(async () => {
    const part = document.querySelector('[data-live]');
    document.querySelector('#dialog').close(); // its close event is still to come
    await htmx.swap({ target: part, text: part.innerHTML, swap: 'innerMorph', sourceElement: part });
  });
  await page.waitForTimeout(300);
  must(await page.locator('#dialog').isHidden(), 'open, and empty: ' + await page.locator('#dialog-body').innerHTML());
}));

await attempt('nodes: cancelling a drain changes nothing', () => visit('light', async (page) => {
  await page.goto(open + 'nodes');
  await page.click('button[aria-label="Drain n2"]');
  await page.locator('#dialog [data-step="confirm"]').waitFor();
  must((await page.locator('#dialog').textContent()).includes('hands over'), 'says what will happen');
  await page.keyboard.press('Escape');
  must(await page.locator('#dialog').isHidden(), 'Escape closes it');
  await page.click('button[aria-label="Drain n2"]');
  await page.click('#dialog [data-close]');
  await page.waitForTimeout(2500);
  must((await page.locator('#node-n2').textContent()).includes('active'), 'n2 is active');
}));

await full('nodes: drain, watch it, activate', () => visit('phone', async (page) => {
  await page.goto(open + 'nodes');
  const row = page.locator('#node-n2');
  await change(page, page.locator('button[aria-label="Drain n2"]'));
  await done(page);
  await row.getByText('draining').waitFor();
  await page.waitForFunction(() => document.querySelector('#node-n2 [data-l=Leads]').textContent.trim() === '0', undefined, { timeout: 20_000 });
  await change(page, page.locator('button[aria-label="Activate n2"]'));
  await done(page);
  await row.getByText('active').waitFor();
}));

await full('nodes: hand a range over', () => visit('light', async (page) => {
  await page.goto(open + 'nodes');
  await page.waitForFunction(() => [...document.querySelectorAll('#t-groups tbody td:nth-child(2)')].every((td) => td.textContent.trim() !== 'none')); // only a leader hands over
  const first = page.locator('#t-groups tbody tr').first();
  const from = (await first.locator('td').nth(1).textContent()).trim();
  const to = ['n1', 'n3'].find((n) => n !== from);
  const range = (await first.locator('td').first().textContent()).trim();
  const dialog = await change(page, page.locator('button', { hasText: 'Hand over ranges' }), { ranges: range, to });
  must((await dialog.textContent()).includes('1 range handed over'), await dialog.textContent());
  await done(page);
  await page.waitForFunction((to) => document.querySelector('#t-groups tbody tr td:nth-child(2)').textContent.trim() === to, to);
}));

await full('nodes: a plan without one', () => visit('light', async (page) => {
  await page.goto(open + 'nodes');
  await page.click('a[aria-label="Plan without n3"]');
  await page.waitForSelector('text=Plan, if n3 left');
  await axe(page);
}));

await full('nodes: what is wrong is said at the field', () => visit('light', async (page) => {
  await page.goto(open + 'nodes');
  await page.click('text=Add a node');
  const dialog = page.locator('#dialog');
  await dialog.locator('[name=ttl]').fill('soon');
  await dialog.locator('.row.end button:not([data-close])').click();
  await dialog.locator('.field.wrong').waitFor();
  must((await dialog.locator('.field.wrong').textContent()).includes('must be a duration'), await dialog.textContent());
  await axe(page);
}, {}, (text) => /400/.test(text)));

await full('a change that is sent twice is made once', () => visit('light', async (page) => {
  await page.goto(open + 'access');
  const twice = await page.evaluate(async () => {
    const body = new URLSearchParams({ once: 'e2e-once', name: 'twice', ttl: '', comment: '' });
    const texts = [];
    for (let i = 0; i < 2; i++) texts.push(await (await fetch('/console/access/token', { method: 'POST', body })).text());
    return texts;
  });
  must(twice[0].includes('class="secret"') && !twice[1].includes('class="secret"') && twice[1].includes('created before'), twice[1]);
  await page.reload();
  must(await page.locator('#t-tokens tbody tr', { hasText: 'token:twice' }).count() === 1, 'tokens');
}));

await full('access: a token is made, shown once, and revoked', () => visit('phone', async (page) => {
  await page.goto(open + 'access');
  const dialog = await change(page, page.locator('text=Create a token'), { name: 'e2e', ttl: '24h', comment: '<i>for</i> a test' });
  const secret = await dialog.locator('.secret').textContent();
  must(secret.startsWith('quorate1t.'), 'the token');
  await done(page);
  must(!(await page.content()).includes(secret), 'shown once');
  const row = page.locator('#t-tokens tbody tr', { hasText: 'token:e2e' });
  must((await row.textContent()).includes('<i>for</i>'), 'the comment as it was written');
  await change(page, row.locator('button'));
  await done(page);
  must(await row.count() === 0, 'it is gone');
}));

await full('access: a role is given and taken away', () => visit('light', async (page) => {
  await page.goto(open + 'access');
  await change(page, page.locator('text=Grant a role'), { identity: 'group:e2e', role: 'planner', scope: 'namespace:web' });
  await done(page);
  const row = page.locator('#t-bindings tbody tr', { hasText: 'group:e2e' });
  must((await row.textContent()).includes('in namespace:web'), await row.textContent());
  await change(page, row.locator('button'));
  await done(page);
  must(await row.count() === 0, 'it is gone');
}));

await full('audit: what was done is there, filtered, without secrets', () => visit('light', async (page) => {
  await page.goto(open + 'audit');
  await page.fill('[name=method]', 'CreateToken');
  await page.click('text=Filter');
  const text = await page.locator('main').textContent();
  must(text.includes('created a token') && text.includes('CreateToken') && text.includes('e2e') && !text.includes('ChangeNode') && !/quorate1t\.[^.\s]+\.[^\s"\]]/.test(text), text);
  await axe(page);
  await page.fill('[name=method]', 'create a token');
  await page.click('text=Filter');
  await page.waitForURL(/create\+a\+token/);
  must((await page.locator('td.call').allTextContents()).every((call) => call.includes('CreateToken')) && await page.locator('td.call').count() > 0, 'found by words');
}));

for (const form of Object.keys(forms)) {
  await full(`audit with entries, ${form}`, () => visit(form, async (page) => {
    await page.goto(open + 'audit');
    must(await page.locator('td.call').count() > 3, 'there are entries');
    await fits(page);
    await axe(page);
    if (plan.shots) await page.screenshot({ path: `${plan.shots}/audit-entries-${form}.png` });
  }));
}

await full('forms propose names', () => visit('light', async (page) => {
  for (const path of ['key', 'events']) {
    const began = Date.now();
    let names;
    do { // a busy machine may not answer within the half second that a page waits
      await page.goto(open + path);
      names = await page.$$eval('input[list]', (all) => all.map((e) => [...e.list.options].map((o) => o.value).join()).join(' '));
    } while (!names.includes('web') && Date.now() < began + 60_000);
    must(names.includes('web') && names.includes('per_client'), `${path} proposes ${names}`);
  }
}));

await full('events: filtered, paused, gone on', () => visit('light', async (page) => {
  await page.goto(open + 'events');
  await page.selectOption('[name=kind]', '1');
  await page.fill('[name=namespace]', 'web');
  await page.click('text=Watch');
  const rows = page.locator('tbody[data-stream] tr');
  await rows.first().waitFor();
  must(!(await page.locator('tbody[data-stream]').textContent()).includes('refused'), 'only what was asked for');
  await page.click('[data-pause]');
  await page.waitForTimeout(700);
  const before = await rows.count();
  await page.waitForTimeout(1200);
  must(await rows.count() === before, 'paused');
  await page.click('[data-pause]');
  await page.waitForFunction((n) => document.querySelectorAll('tbody[data-stream] tr').length > n, before);
}));

await full('without JavaScript pages are read, and changes made', () => visit('light', async (page) => {
  await page.goto(open + 'nodes');
  must((await page.locator('#t-nodes').textContent()).includes('n3'), 'nodes');
  await page.click('button[aria-label="Drain n3"]');
  await page.click('button:has-text("Drain n3")');
  await page.waitForSelector('text=n3 is draining');
  await page.click('text=Done');
  await page.click('button[aria-label="Activate n3"]');
  await page.click('button:has-text("Activate n3")');
  await page.waitForSelector('text=n3 is active');
}, { javaScriptEnabled: false }));

await owners({ plan, open, visit, attempt, full, change, done });

await full('a page that is not there says so', () => visit('light', async (page) => {
  await page.goto(open + 'nothing');
  must((await page.locator('h1').textContent()).includes('Page not found'), 'title');
  await axe(page);
}, {}, (text) => /404/.test(text)));

// Of a node that asks who comes.
const own = { ignoreHTTPSErrors: true };
const refused = (text) => /401|403/.test(text);
async function signIn(page, token) {
  await page.fill('#token', token);
  await page.click('button:has-text("Sign in")');
}

for (const form of Object.keys(forms)) {
  await (form === 'light' ? attempt : full)(`sign-in, ${form}`, () => visit(form, async (page) => {
    await page.goto(plan.secured + '/console/nodes');
    must(page.url().includes('/sign-in?next='), page.url());
    await axe(page);
    await fits(page);
    if (plan.shots) await page.screenshot({ path: `${plan.shots}/sign-in-${form}.png`, fullPage: true });
    if (form !== 'dark') await keyboard(page);
  }, own));
}

await attempt('sign-in: a wrong token is refused, a good one leads on, signing out ends it', () => visit('light', async (page, ctx) => {
  await page.goto(plan.secured + '/console/nodes');
  await signIn(page, 'quorate1t.nonsense.nonsense');
  must((await page.locator('[role=alert]').textContent()).includes('did not work'), 'says so');
  await axe(page);
  await signIn(page, plan.admin);
  await page.waitForURL('**/console/nodes');
  const cookies = await ctx.cookies();
  must(cookies.length === 1 && cookies[0].httpOnly && cookies[0].secure && cookies[0].sameSite === 'Strict' && cookies[0].name.startsWith('__Host-'), JSON.stringify(cookies.map((c) => ({ ...c, value: '' }))));
  must(!page.url().includes(plan.admin) && !(await page.content()).includes(plan.admin), 'the token is nowhere');
  must((await page.locator('.who').textContent()) === 'token:boss', 'who');
  await page.goto(plan.secured + '/console/audit');
  must((await page.locator('main').textContent()).includes('console/sign-in'), 'the sign-in is in the audit log');
  await page.click('text=Sign out');
  await page.waitForURL('**/sign-in');
  await page.goto(plan.secured + '/console/');
  must(page.url().includes('/sign-in'), 'out');
}, own, refused));

await readers({ plan, visit, full, own, refused, signIn });

await full('who may little sees little', () => visit('light', async (page) => {
  await page.goto(plan.secured + '/console/access');
  await signIn(page, plan.reader);
  await page.waitForURL('**/console/access');
  must((await page.locator('main').textContent()).includes('token:reader'), 'who');
  must(await page.locator('button:has-text("Create a token")').count() === 0, 'no button for what would be refused');
  must(await page.locator('#nav a', { hasText: 'Nodes' }).count() === 0, 'no page in the navigation that would be refused');
  await axe(page);
  for (const path of ['nodes', 'audit']) {
    const res = await page.goto(plan.secured + '/console/' + path);
    must(res.status() === 403 && (await page.locator('main').textContent()).includes('needs '), path + ': ' + res.status());
  }
  await axe(page);
  const status = await page.evaluate(async () => (await fetch('/console/access/token', { method: 'POST', body: new URLSearchParams({ once: 'x', name: 'y' }) })).status);
  must(status === 403, 'a change that is refused: ' + status);
}, own, refused));

clearInterval(traffic);
await browser.close();
say('the end', true);
