"""What mkdocs does not do by itself: mkdocs.yml names this file.

Pages are written for GitHub. Links to files that are not in docs lead to the repository, and
headings have the anchors that GitHub gives them.
"""

import posixpath
import re

LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )([^)#\s]+)", re.MULTILINE)
INFO = re.compile(r"^(```\w+) .*$", re.MULTILINE)
FENCE = re.compile(r"(^```.*?^```\n?)", re.MULTILINE | re.DOTALL)


def slugify(text, separator):
    """The anchor of a heading, as GitHub makes it; internal/doctest has the same."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def on_config(config):
    config["mdx_configs"]["toc"]["slugify"] = slugify
    return config


def on_files(files, config):
    for file in [f for f in files if f.src_path.endswith(".go")]:
        files.remove(file)
    return files


def on_page_markdown(markdown, page, config, files):
    here = posixpath.dirname("docs/" + page.file.src_path)

    def outside(link):
        begin, to = link.groups()
        path = posixpath.normpath(posixpath.join(here, to))
        if ":" in to or path.startswith("docs/"):
            return link.group(0)
        return f"{begin}{config['repo_url']}/blob/main/{path}"

    parts = FENCE.split(markdown)
    parts[1::2] = [INFO.sub(r"\1", part) for part in parts[1::2]]  # one word says the language
    parts[::2] = [LINK.sub(outside, part) for part in parts[::2]]
    return "".join(parts)
