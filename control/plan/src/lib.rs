//! compile(Config) -> Plan: pure; the Plan is immutable and versioned.
