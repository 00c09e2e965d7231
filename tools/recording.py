"""Records the README's first minute: runs the commands and draws what they print as an SVG.

make recording writes docs/images/first-minute.svg. It needs the default ports of quorate dev.
"""

import html
import re
import subprocess
import sys
import time

WIDTH, COLUMNS, LINE, SECONDS = 860, 104, 18, 20
COMMANDS = [  # the command, and the lines of its output that are shown
    ("quorate allow web/per_client 203.0.113.7", 3),
    ("quorate replay --log examples/access.log --limit web/per_client --key ip --speed 2000", 14),
    ("quorate limits explain web/per_client", 10),
]

STYLE = """
rect{fill:#0d1117}text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}
.command{fill:#7ee787;font-weight:600}.dim{fill:#8b949e}
@media (prefers-reduced-motion:reduce){text{animation:none!important}}
"""


def fit(line):
    line = line.rstrip()
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def frames(quorate):
    """The lines of the terminal with their class and the pause before each, in seconds."""
    dev = subprocess.Popen([quorate, "dev", "-q"], stdout=subprocess.PIPE, text=True)
    try:
        out = [("command", "$ quorate dev -q &", 0)]
        for line in dev.stdout:
            line = re.sub(r"/tmp/quorate-dev-\d+", "/tmp/quorate-dev", line)
            out.append(("", fit(line), 0.1))
            if "have leaders" in line:
                break
        else:
            sys.exit("quorate dev did not start: are its ports in use?")
        for command, most in COMMANDS:
            done = subprocess.run([quorate, *command.split()[1:]], capture_output=True, text=True, timeout=120)
            if done.returncode > 1:
                sys.exit(f"{command}: {done.stderr}")
            lines = done.stdout.rstrip().split("\n")
            out += [("", "", 0), ("command", "$ " + command, 1.6)]
            out += [("", fit(line), 0.12) for line in lines[:most]]
            if len(lines) > most:
                out.append(("dim", f"  ... {len(lines) - most} more lines", 0.1))
        return out
    finally:
        dev.terminate()
        dev.wait(30)


def draw(lines):
    pauses = sum(pause for _, _, pause in lines)
    stretch = (SECONDS - 5) / pauses  # the last seconds show the whole
    height = LINE * len(lines) + 28
    rules, texts, at = [], [], 0.0
    for n, (kind, text, pause) in enumerate(lines):
        at += pause * stretch
        share = 100 * at / SECONDS
        if not text:
            continue
        if not at:  # there from the beginning, so that no viewer sees an empty terminal
            texts.append(f'<text x="16" y="{24 + LINE * n}" class="{kind}" xml:space="preserve">{html.escape(text)}</text>')
            continue
        rules.append(f"@keyframes l{n}{{0%,{share:.2f}%{{opacity:0}}{share + 0.3:.2f}%,100%{{opacity:1}}}}")
        texts.append(
            f'<text x="16" y="{24 + LINE * n}" class="{kind}" style="animation:l{n} {SECONDS}s infinite" xml:space="preserve">{html.escape(text)}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">\n'
        f"<title>A terminal: three nodes start, a check, a replay of an access log, and the bound of a limit</title>\n"
        f'<style>{STYLE}{"".join(rules)}</style>\n<rect width="{WIDTH}" height="{height}" rx="8"/>\n' + "\n".join(texts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    began = time.time()
    picture = draw(frames(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture)
    print(f"{sys.argv[2]}: {len(picture)} bytes, recorded in {time.time() - began:.0f} s")
