"""Sphinx's configuration of the site; `make docs` runs it on the pages that `manual` writes."""

project = "Hudi Operator"
copyright = "the authors of Hudi Operator; Apache License 2.0"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "Hudi Operator"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b6fa4",
        "color-brand-content": "#0b6fa4",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5cc0f2",
        "color-brand-content": "#5cc0f2",
    },
}
# Dashes alone: texts of messages and commands are shown with the quotes that are typed.
smartquotes_action = "D"
myst_enable_extensions = ["colon_fence", "fieldlist"]
myst_heading_anchors = 4
python_maximum_signature_line_length = 76
python_display_short_literal_types = True
# The blocks are shown in the languages that they have; a prompt is not copied.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
pygments_style = "friendly"
pygments_dark_style = "monokai"
