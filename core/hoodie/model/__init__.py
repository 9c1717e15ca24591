"""The values of a Hudi table: instants, files, configuration, metadata, plans. No I/O."""
