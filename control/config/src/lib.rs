//! What people write: parsed to a tree with positions, validated, described by a JSON Schema.
