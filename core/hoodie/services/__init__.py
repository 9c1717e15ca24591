"""Table services: plan, run one task per file group, commit."""
