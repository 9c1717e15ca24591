"""Mirrors: base files registered in an Iceberg table, for engines that know no Hudi tables.

`states` says what is to be mirrored and how far a mirror is, `values` how. The others write it by
PyIceberg, which is an extra of the package, and are imported by those alone that write.
"""
