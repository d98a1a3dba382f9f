"""How the pages in docs/ become a site: the hooks of MkDocs, the runner of notebooks, the pictures of the concepts."""
