"""Help texts flow with the terminal, but for what is set line by line."""

from hoodie.cli import command


def test_paragraphs_flow_and_indented_ones_stay() -> None:
    text = "A first\nparagraph.\n\nExamples:\n\n  hoodie a\n  hoodie b\n\nThe\nend.\n"
    assert command.reflowed(text) == (
        "A first paragraph.\n\nExamples:\n\n  hoodie a\n  hoodie b\n\nThe end."
    )
