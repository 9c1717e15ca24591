"""Where data-parallel work runs: the Engine protocol and local threads."""
