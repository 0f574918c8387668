//! `cache`: the store of responses that all policies `cache` share.

use crate::scalar::quantity;
use crate::section::{Field, Reader, Section, Shape, Value};

use super::texts::SIZE_MAX;

/// Minimum size of the store. A smaller one is a mistake: a number that was meant in MiB.
const MEMORY_MIN: u64 = 1 << 20;
const MEMORY: Shape = Shape::Size { min: MEMORY_MIN, max: SIZE_MAX, off: false };

/// The store of responses that all policies `cache` share. The short form is its size.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cache_store", noun = "`cache`", own_forms)]
pub struct CacheStore {
    /// Maximum bytes of all stored responses in memory, with their heads and keys.
    #[key(
        size = MEMORY_MIN..=SIZE_MAX, default = "256MiB",
        also = ["size", "max_size", "capacity", "keys_zone", "total_max_size"],
    )]
    pub memory: u64,
}

impl Value for CacheStore {
    const SHAPE: Shape = Shape::AnyOf(&[MEMORY, Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let memory = reader.field(field, |text| quantity::size(text, MEMORY_MIN, SIZE_MAX))?;
        Some(Self { memory })
    }
}
