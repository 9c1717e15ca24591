"""Work that goes on beside the work: the Background protocol and its threads."""
