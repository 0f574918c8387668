//! The root of the table.

use crate::section::Section;
use crate::sections::root::RootKeys;

use super::SectionSpec;

/// The top level of the main file.
pub(crate) static ROOT: &SectionSpec = RootKeys::SPEC;
