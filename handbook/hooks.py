"""What MkDocs calls while it builds: notebooks are pages, and pages of results say what is stale by now."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))  # MkDocs loads this file by its path

from benchmarks import audit_full, case, page, reproduction, results
from handbook.notebook import as_markdown

SUFFIX = ".ipynb"
GENERATED: dict[str, Callable[[Path], str]] = {
    "benchmarks.md": lambda docs: page.render(case.FOLDER, results.FOLDER, docs, draw=False),
    "reproduction.md": lambda docs: reproduction.render(case.FOLDER, results.FOLDER),
    "audits.md": lambda docs: audit_full.render(audit_full.read(), audit_full.names()),
}


class NotebookFile(File):
    """A notebook, which becomes a page instead of being copied."""

    def is_documentation_page(self) -> bool:
        """Tell MkDocs to render it."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take notebooks for pages."""
    for file in [file for file in files if file.src_uri.endswith(SUFFIX)]:
        files.remove(file)
        files.append(NotebookFile(file.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls))
    return files


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """Run a notebook, or look at results anew; other pages are read as usual."""
    if page.file.src_uri.endswith(SUFFIX):
        return as_markdown(Path(config.docs_dir) / page.file.src_uri)
    generate = GENERATED.get(page.file.src_uri)
    return None if generate is None else generate(Path(config.docs_dir))
