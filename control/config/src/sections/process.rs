//! Settings of the process: `workers` and `store`.

use std::path::PathBuf;

use crate::scalar::file_path::file_path;
use crate::scalar::quantity;
use crate::section::{Field, Reader, ScalarError, Section, Shape, Text, Value, default};

static PATH: Text = Text {
    expected: "the path of a file such as `/var/lib/tollgate/store`",
    pattern: Some("."),
    loose: false,
};

/// The number of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerCount {
    /// The number of processors that this process may use (affinity and cgroup quota).
    #[default]
    Auto,
    /// Exactly this number.
    Count(u16),
}

impl Value for WorkerCount {
    const SHAPE: Shape =
        Shape::AnyOf(&[Shape::Word(&["auto"]), Shape::Count { min: 1, max: 1024, off: false }]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        reader.field(field, |text| {
            if text == "auto" {
                return Ok(Self::Auto);
            }
            let count = quantity::count(text, 1, 1024)?;
            u16::try_from(count).map(Self::Count).map_err(|_| ScalarError::new("{} is too large"))
        })
    }
}

/// The embedded store of the admin API.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "store", own_forms)]
pub struct StoreSettings {
    /// Path of its file, which is created if it does not exist.
    #[key(text = PATH, parse = file_path, required, also = ["file", "to"])]
    pub path: PathBuf,
    /// Number of versions in its history.
    #[key(count = 1..=10_000_000, default = 10000, also = ["versions", "keep"])]
    pub history: u64,
}

impl Value for StoreSettings {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&PATH), Shape::Section(StoreSettings::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let path = reader.field(field, file_path)?;
        Some(Self { path, history: default::<Self, _>("history") })
    }
}
