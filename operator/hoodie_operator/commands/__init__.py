"""The commands of `hudi-operator`, one a module, which imports what that command alone needs."""
