"""What MkDocs calls while it builds: notebooks are pages."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))  # MkDocs loads this file by its path

from handbook.notebook import as_markdown

SUFFIX = ".ipynb"


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
    """Run a notebook and give its text; other pages are read as usual."""
    path = page.file.abs_src_path
    return as_markdown(Path(path)) if path is not None and path.endswith(SUFFIX) else None
