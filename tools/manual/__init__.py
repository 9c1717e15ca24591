"""The documentation site: the pages of the repository, and reference pages generated from the code.

`python -m manual FOLDER` writes the sources of the site, in Markdown as MyST reads it; `make docs`
has Sphinx make HTML of them. Every module but `__main__` is values alone: text in, text out.
"""
