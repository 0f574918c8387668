//! The tables of the file.

use redb::TableDefinition;

/// From (kind, name) to (version of the last change, text).
pub(crate) const DOCUMENTS: TableDefinition<'_, (&str, &str), (u64, &str)> =
    TableDefinition::new("documents");
/// From version to [`NewVersion`](crate::NewVersion), as JSON.
pub(crate) const HISTORY: TableDefinition<'_, u64, &str> = TableDefinition::new("history");
/// Numbers about the file itself.
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The version of the last change; 0: none yet.
pub(crate) const VERSION: &str = "version";
/// The format of the tables.
pub(crate) const FORMAT: &str = "format";
/// The format that this program writes.
pub(crate) const CURRENT_FORMAT: u64 = 1;
