// What owners of limits and quotas do.
import { axe, fits, must } from './check.mjs';

const first = '{"namespace":"e2e","limit":"owner","key":"noisy <b>"}';

export async function owners({ plan, open, visit, attempt, full, change, done }) {
  const editor = 'edit?namespace=e2e&limit=owner';
  const ask = (times) => Promise.all(Array.from({ length: times }, () => fetch(plan.open + '/v1/allow', { method: 'POST', body: first })));
  // asking goes on asking while f runs: what leaders know of a key they forget once it is full again.
  const asking = async (times, f) => {
    const busy = setInterval(() => { ask(times).catch(() => {}); }, 300);
    try {
      await f();
    } finally {
      clearInterval(busy);
    }
  };
  // recorded waits until the history has demand for the limit. That takes a slot of ten seconds, and where
  // a leader or an upload was lost meanwhile, as long again as a process waits before it uploads anew: a minute.
  const recorded = async () => {
    const until = Date.now() + 150_000;
    for (let said = ''; ; await new Promise((go) => setTimeout(go, 1000))) {
      const res = await fetch(open + 'data/limit/whatif?namespace=e2e&limit=owner&unit=s');
      said = res.ok ? (await res.json()).out.result : `${res.status}: ${await res.text()}`;
      if (/^With .* tokens would have been refused/.test(said)) return said;
      must(Date.now() < until, 'no demand was recorded: ' + said);
    }
  };
  const inDialog = (page) => page.locator('#dialog');
  const go = (page) => inDialog(page).locator('.row.end button:not([data-close])').click();

  await attempt('limits: a new limit: a fault at its line, the difference, applied', () => visit('light', async (page) => {
    await page.goto(open + 'limits');
    await page.fill('#new-namespace', 'e2e');
    await page.fill('#new-limit', 'owner');
    await page.click('text=Create');
    await page.waitForSelector('h1:has-text("New limit e2e/owner")');
    await page.fill('#yaml', 'owner:\n  rate: 10/s\n  burst: many\n');
    await page.locator('#faults .bad', { hasText: 'burst' }).waitFor();
    must((await page.locator('.gutter .bad').textContent()).includes('3'), 'the gutter marks line 3');
    must(await page.getAttribute('#yaml', 'aria-invalid') === 'true', 'the field is marked');
    await axe(page);
    await page.click('#faults .place');
    must(await page.evaluate(() => { const a = document.activeElement; return a.id === 'yaml' && a.value.slice(0, a.selectionStart).split('\n').length === 3; }), 'the place is reached');
    await page.click('text=Review the difference');
    await inDialog(page).locator('textarea').waitFor();
    must((await inDialog(page).textContent()).includes('line 3'), await inDialog(page).textContent());
    await page.keyboard.press('Escape');
    must((await page.inputValue('#yaml')).includes('burst: many'), 'the text is kept');
    await page.fill('#yaml', 'owner: {rate: 10/s, burst: 20}\n');
    await page.locator('#faults .fine', { hasText: '1 new' }).waitFor();
    const dialog = await change(page, page.locator('text=Review the difference'), { comment: 'for a <b>test</b>' });
    must((await dialog.textContent()).includes('becomes active on all nodes'), await dialog.textContent());
    await done(page);
    await page.waitForSelector('h1:has-text("Edit e2e/owner")');
  }, {}, (text) => /422/.test(text)));

  await full('limits: found by search, and reached from there', () => visit('phone', async (page) => {
    await page.goto(open + 'limits');
    await page.fill('#q', 'owner');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/limits?*q=owner*');
    must(await page.locator('#t-limits tbody tr').count() === 1, 'one limit');
    await page.click('#t-limits a:has-text("owner")');
    await page.waitForSelector('h1:has-text("e2e/owner")');
  }));

  await full('limits: what somebody else changed meanwhile is shown, and the text kept', () => visit('light', async (page, ctx) => {
    await page.goto(open + editor);
    await page.fill('#yaml', 'owner: {rate: 10/s, burst: 30}\n');
    const other = await ctx.newPage();
    await other.goto(open + editor);
    await other.fill('#yaml', 'owner: {rate: 11/s, burst: 20}\n');
    await change(other, other.locator('text=Review the difference'), { comment: 'theirs' });
    await page.click('text=Review the difference');
    await inDialog(page).locator('h1', { hasText: 'Somebody changed' }).waitFor();
    const said = await inDialog(page).textContent();
    must(said.includes('theirs') && said.includes('rate 10/s → 11/s') && said.includes('burst: 30'), said);
    await axe(page);
    await go(page);
    await inDialog(page).locator('[data-step="result"]').waitFor();
  }));

  await full('limits: what was not looked at is not applied', () => visit('light', async (page, ctx) => {
    await page.goto(open + editor);
    await page.fill('#yaml', 'owner: {rate: 10/s, burst: 40}\n');
    await page.click('text=Review the difference');
    await inDialog(page).locator('.diff').waitFor();
    const other = await ctx.newPage();
    await other.goto(open + editor);
    await other.fill('#yaml', 'owner: {rate: 12/s, burst: 20}\n');
    await change(other, other.locator('text=Review the difference'));
    await go(page);
    await inDialog(page).locator('[role=alert]', { hasText: 'review the difference first' }).waitFor();
    must((await inDialog(page).textContent()).includes('burst: 40'), 'the text is kept');
    await page.keyboard.press('Escape');
  }, {}, (text) => /409/.test(text)));

  await full('limits: history, what a version changed, rolled back by keyboard', () => visit('light', async (page) => {
    await page.goto(open + 'versions');
    const rows = page.locator('#t-versions tbody tr');
    must((await page.locator('#t-versions').textContent()).includes('for a <b>test</b>'), 'comments are text');
    const first = rows.filter({ hasText: 'for a <b>test</b>' });
    const number = (await first.locator('td').first().textContent()).trim();
    await first.locator('a').click();
    await page.waitForSelector(`h1:has-text("Version ${number} of the limits")`);
    must((await page.locator('.diff').textContent()).includes('e2e/owner  (new)'), await page.locator('.diff').textContent());
    await axe(page);
    await page.locator('button:has-text("Roll back to this version")').focus();
    await page.keyboard.press('Enter');
    await inDialog(page).locator('[data-step="confirm"]').waitFor();
    must((await inDialog(page).locator('.diff').textContent()).includes('rate: 12/s'), 'the difference');
    await axe(page);
    await inDialog(page).locator('[name=comment]').fill('it was better');
    await page.keyboard.press('Enter');
    await inDialog(page).locator('[data-step="result"]').waitFor();
    await page.goto(open + 'versions');
    must((await rows.first().textContent()).includes(`back to ${number}`), await rows.first().textContent());
  }));

  await full('limits: edited without JavaScript', () => visit('light', async (page) => {
    await page.goto(open + editor);
    await page.fill('#yaml', 'owner: {rate: x, burst: 20}\n');
    await page.click('text=Review the difference');
    await page.waitForSelector('h1:has-text("Limits with errors")');
    await page.fill('textarea', 'owner: {rate: 10/s, burst: 21}\n');
    await page.click('text=Check again');
    await page.waitForSelector('.diff');
    await page.click('button:has-text("Apply")');
    await page.waitForSelector('text=becomes active on all nodes');
  }, { javaScriptEnabled: false }, (text) => /409|422/.test(text)));

  await full('limit: switched to shadow and back', () => visit('phone', async (page) => {
    await page.goto(open + 'limit?namespace=e2e&limit=owner');
    await change(page, page.locator('button:has-text("Switch to shadow")'), { comment: 'try it' });
    await done(page);
    await page.locator('main .facts .badge', { hasText: 'shadow' }).waitFor();
    await change(page, page.locator('button:has-text("Switch to enforce")'));
    await done(page);
    await page.locator('main .facts .badge', { hasText: 'enforced' }).waitFor();
  }));

  await attempt('key: exhausted, given a rule of its own, cleared, reset', () => visit('light', async (page) => {
    await asking(20, async () => {
      await page.goto(open + 'key?namespace=e2e&limit=owner');
      await page.fill('#key', 'noisy <b>');
      await page.click('main button:has-text("Show")');
      await page.waitForSelector('h1:has-text("Key noisy <b>")');
      await page.waitForFunction(() => /[1-9][0-9,]* refused/.test(document.querySelector('main').textContent));
    });
    await page.click('button:has-text("Set an override")');
    const dialog = inDialog(page);
    await dialog.locator('[name=scale]').fill('a lot');
    await go(page);
    await dialog.locator('.field.wrong', { hasText: 'must be a number' }).waitFor();
    await axe(page);
    await dialog.locator('[name=scale]').fill('');
    await dialog.locator('[name=rate]').fill('7/s');
    await dialog.locator('[name=expires]').fill('2d');
    await go(page);
    await dialog.locator('[data-step="result"]').waitFor();
    await done(page);
    await page.locator('main', { hasText: '7/s' }).waitFor();
    await change(page, page.locator('button:has-text("Delete it")'));
    await done(page);
    await page.locator('button:has-text("Set an override")').waitFor();
    await page.click('main button:has-text("Reset the key")');
    await dialog.locator('[data-step="confirm"]', { hasText: 'can spend the whole burst' }).waitFor();
    await page.keyboard.press('Escape');
    await change(page, page.locator('main button:has-text("Reset the key")'));
    await done(page);
  }, {}, (text) => /400/.test(text)));

  await full('limit: rates are live, and the past is there', () => visit('light', async (page) => {
    await asking(8, async () => {
      const there = async () => { await page.goto(open + 'limit?namespace=e2e&limit=owner&range=minutes'); return page.locator('#chart-past canvas').count(); };
      for (let i = 0; i < 15 && !await there(); i++) await page.waitForTimeout(3000);
      must(await there(), 'no history: ' + await page.locator('#past').textContent());
      await page.waitForFunction(() => /[1-9]/.test(document.querySelector('[data-live=now] .v').textContent));
      await page.goto(open + 'limit?namespace=e2e&limit=owner&range=day'); // longer than the nodes have run
      must((await page.locator('.holes').textContent()).includes('no data'), 'what is not known is said');
      await there();
      // A part is shown by dragging over it, and the whole again by a double click.
      const plot = page.locator('#chart-past .u-over');
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      await page.mouse.move(box.x + box.width * .5, box.y + 20);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * .9, box.y + 30, { steps: 4 });
      await page.mouse.up();
      await page.waitForURL('**/limit?*from=*to=*');
      must(await page.locator('#from').inputValue() < await page.locator('#to').inputValue(), 'the range is in the fields');
      await page.locator('a:has-text("Zoom out")').focus();
      await page.keyboard.press('Enter');
      await page.waitForURL('**/limit?*from=*to=*');
      await page.locator('#chart-past .u-over').dblclick();
      await page.waitForURL((u) => !u.search.includes('from='));
      await axe(page);
      await fits(page);
    });
  }));

  await full('limit: what if the rule were another, by keyboard', () => visit('phone', async (page) => {
    await ask(20);
    const demand = await recorded();
    await page.goto(open + 'limit?namespace=e2e&limit=owner');
    must(await page.locator('#amount').count(), `no slider, with the history: ${demand}: ` + await page.locator('main').textContent());
    const out = page.locator('[data-out="refused"]');
    must(/exact|bounds|estimate|about|likely/.test(await out.textContent()), await out.textContent());
    await page.fill('#amount', '12'); // by number
    await page.waitForFunction(() => document.querySelector('[data-out="rule"]').textContent.startsWith('12/s') && document.querySelector('#amount-slide').value === '12', undefined, { timeout: 30_000 });
    must(/^With 12\/s.* would have been refused/.test(await page.locator('[data-out="result"]').textContent()), await page.locator('[data-out="result"]').textContent());
    await page.waitForFunction(() => [...document.querySelectorAll('#chart-curve .u-legend th')].some((e) => e.textContent.includes('refused')));
    await page.focus('#amount-slide');
    await page.keyboard.press('Home');
    // What is refused may be the same by another rule; the rule that was tried is not.
    await page.waitForFunction(() => document.querySelector('[data-out="rule"]').textContent.startsWith('1/10s'), undefined, { timeout: 30_000 });
    must(/exact|bounds|estimate|about|likely/.test(await out.textContent()), await out.textContent());
    must(await page.locator('#chart-whatif canvas').count() === 1, 'the chart');
    await axe(page);
    await fits(page);
  }));

  await full('accounts: an operation, once', () => visit('light', async (page) => {
    const apply = { delta: '40', relative: 'zero', request: 'e2e-' + Date.now() };
    const at = open + 'account?id=shop~project:e2e~user:ann~~pool~builds';
    await page.goto(at);
    for (const said of ['is 40', 'Already applied']) {
      await page.click('button:has-text("Apply an operation")');
      const dialog = inDialog(page);
      await dialog.locator('[name=ignore]').waitFor();
      await axe(page);
      await dialog.locator('[name=ignore]').check();
      await dialog.locator('[name=delta]').fill(apply.delta);
      await dialog.locator('[name=relative]').selectOption(apply.relative);
      await dialog.locator('[name=request]').fill(apply.request);
      await go(page);
      await dialog.locator('[data-step="result"]').waitFor();
      must((await dialog.textContent()).includes(said), await dialog.textContent());
      await done(page);
    }
    must((await page.locator('#t-changes').textContent()).includes(apply.request), 'the history');
    await page.goto(open + 'accounts'); // no name is known here
    await page.click('#t-realms a:has-text("project:e2e")');
    await page.waitForURL('**/accounts?app=shop*');
    await page.click('#t-accounts a:has-text("user:ann")');
    await page.waitForURL('**/accounts?app=shop&identity=user%3Aann*');
    await page.click('#t-accounts a:has-text("pool")');
    await page.waitForURL('**/account?*');
    await page.goto(open + 'policies');
    await page.click('#t-realms a:has-text("project:e2e")');
    await page.click('#t-configs a');
    await page.waitForURL('**/policies?*version*');
    must((await page.locator('#t-policies').textContent()).includes('default'), 'the policies of the config');
  }));

  await full('limits: one that is deleted is gone, and its past can be brought back', () => visit('light', async (page) => {
    await page.goto(open + 'limit?namespace=e2e&limit=owner');
    await change(page, page.locator('button:has-text("Delete")'), { comment: 'not needed' });
    await page.goto(open + 'limits?q=owner');
    must((await page.locator('main').textContent()).includes('No limit matches'), 'gone');
  }, {}, deleted));
}

// deleted accepts that the page of a limit asks for its figures once more after the limit was deleted.
const deleted = (text) => text.includes('404') && (text.includes('/data/limit/now?limit=owner') || text.startsWith('Failed to load resource'));

// readers may look at limits and not change them.
export async function readers({ plan, visit, full, own, refused, signIn }) {
  await full('who may only read limits changes none', () => visit('light', async (page) => {
    await page.goto(plan.secured + '/console/edit');
    await signIn(page, plan.reader);
    await page.waitForURL('**/console/edit');
    must(await page.locator('#yaml').getAttribute('readonly') !== null && await page.locator('main button').count() === 0, 'nothing to press');
    await page.goto(plan.secured + '/console/limits');
    must(await page.locator('text=New limit').count() === 0, 'no new limit');
    const got = await page.evaluate(async () => {
      const body = new URLSearchParams({ once: 'e2e-reader', seen: '', namespace: '', limit: '', base: '1', yaml: 'version: 1\nnamespaces: {}\n' });
      const res = await fetch('/console/versions/rollback', { method: 'POST', body: new URLSearchParams({ once: 'e2e-back', version: '1' }) });
      return [(await fetch('/console/edit/apply', { method: 'POST', body })).status, res.status];
    });
    must(got.every((status) => status >= 400), got.join());
  }, own, (text) => /40[349]/.test(text) || refused?.(text)));
}
