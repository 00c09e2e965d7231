// What every page is held to.
import AxeBuilder from '@axe-core/playwright';

export function say(name, ok, detail, ms = 0) {
  process.stdout.write(JSON.stringify({ name, ok: !!ok, ms, detail: detail ? String(detail).slice(0, 4000) : '' }) + '\n');
}

// told is an error in words: where in our own files it was thrown, then what is wrong.
// That comes last, for it is the end of a failure that reports keep.
function told(e) {
  const at = String(e.stack || '').split('\n').filter((l) => /^ +at /.test(l) && !/node_modules|node:/.test(l)).map((l) => l.trim().replace(/^at (async )?/, '').replace(/(file:\/\/)?\/[^ ]*\//, ''));
  return `${at.join(' < ')}\n${e.message || e}`;
}

// attempt runs one check. It reports the error that the check throws.
export async function attempt(name, f) {
  const began = Date.now();
  try {
    await f();
    say(name, true, '', Date.now() - began);
  } catch (e) {
    say(name, false, told(e), Date.now() - began);
  }
}

export function must(ok, what) {
  if (!ok) throw new Error(what);
}

// listen gathers what the browser complains about; expected says what is meant to be.
export function listen(page, expected = () => false) {
  const wrong = [];
  page.on('console', (m) => {
    if (['error', 'warning'].includes(m.type()) && !expected(m.text())) wrong.push(`${m.type()}: ${m.text()} (${m.location().url})`);
  });
  page.on('pageerror', (e) => wrong.push('exception: ' + e.message));
  page.on('request', (r) => {
    const u = new URL(r.url());
    if (u.origin !== new URL(page.url() === 'about:blank' ? r.url() : page.url()).origin) wrong.push('asks elsewhere: ' + r.url());
  });
  page.on('response', (r) => {
    if (r.status() >= 400 && !expected(`${r.status()} ${r.url()}`)) wrong.push(`${r.status()} ${r.url()}`);
  });
  return wrong;
}

export async function axe(page) {
  const res = await new AxeBuilder({ page }).analyze();
  must(res.violations.length === 0, res.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ') + ': ' + n.failureSummary).slice(0, 3).join('; ')}`).join('\n'));
}

export async function fits(page) {
  const [wide, have, who] = await page.evaluate(() => {
    const have = document.documentElement.clientWidth;
    const who = [...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll, .plot, .vh, .skip') && e.getBoundingClientRect().right > have + 1).slice(0, 3).map((e) => e.tagName + '.' + e.className);
    return [document.documentElement.scrollWidth, have, who.join(', ')];
  });
  must(wide <= have, `the page is ${wide} wide, the window ${have}: ${who}`);
  const over = await page.evaluate(() => [...document.querySelectorAll('td .badge, .stat .badge')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > e.closest('td, .stat').getBoundingClientRect().right + 1).map((e) => e.closest('td, .stat').innerText));
  must(over.length === 0, 'stands on the next cell: ' + over.join('; '));
}

// keyboard walks through the page by Tab: whatever can be clicked is reached, in sight
// when it is, and has a ring around it. The page itself writes down where the focus goes.
export async function keyboard(page) {
  const want = await page.evaluate(() => {
    const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, [tabindex="0"]')].filter((e) => e.checkVisibility() && !e.disabled && !e.closest('dialog:not([open])'));
    all.forEach((e, i) => { e.dataset.e2e = i; });
    window.e2e = { seen: new Set(), wrong: [] };
    document.addEventListener('focusin', (ev) => {
      const e = ev.target;
      if (e.dataset.e2e !== undefined) window.e2e.seen.add(e.dataset.e2e);
      const box = e.getBoundingClientRect();
      const style = getComputedStyle(e);
      if (style.outlineStyle === 'none' || !(parseFloat(style.outlineWidth) > 0)) window.e2e.wrong.push('no ring around ' + e.outerHTML.slice(0, 120));
      if (!box.width || !box.height) window.e2e.wrong.push('not in sight: ' + e.outerHTML.slice(0, 120));
    });
    document.activeElement?.blur();
    window.scrollTo(0, 0);
    return all.length;
  });
  let wrong, missed;
  for (let round = 0; round < 3; round++) { // the walk may begin anywhere, and pages that are still loading grow
    for (let i = 0; i < want + 10; i++) await page.keyboard.press('Tab');
    [wrong, missed] = await page.evaluate(() => [window.e2e.wrong.slice(0, 3), [...document.querySelectorAll('[data-e2e]')].filter((e) => !window.e2e.seen.has(e.dataset.e2e)).map((e) => e.outerHTML.slice(0, 120))]);
    if (missed.length === 0) break;
  }
  must(wrong.length === 0, wrong.join('; '));
  must(missed.length === 0, `Tab does not reach ${missed.length} of ${want}: ${missed.slice(0, 3).join('; ')}`);
}
