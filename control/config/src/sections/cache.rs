//! `cache`: the store of responses that all policies `cache` share.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::position::Spanned;
use crate::scalar::file_path::file_path;
use crate::scalar::quantity;
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text, Value, shown};

use super::texts::SIZE_MAX;

/// Minimum size of the store. A smaller one is a mistake: a number that was meant in MiB.
const MEMORY_MIN: u64 = 1 << 20;
const MEMORY: Shape = Shape::Size { min: MEMORY_MIN, max: SIZE_MAX, off: false };
/// Minimum size of the disk tier: some segments of its log.
const DISK_MIN: u64 = 16 << 20;
static FOLDER: Text = Text {
    expected: "the path of a directory such as `/var/cache/tollgate`",
    pattern: Some("."),
    loose: false,
};

/// The store of responses that all policies `cache` share. The short form is its size.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cache_store", noun = "`cache`", own_forms, check = check_sizes)]
pub struct CacheStore {
    /// Maximum bytes of all stored responses in memory, with their heads and keys.
    #[key(
        size = MEMORY_MIN..=SIZE_MAX, default = "256MiB",
        also = ["size", "max_size", "capacity", "keys_zone", "total_max_size"],
    )]
    pub memory: u64,
    /// The disk tier, which keeps responses that have no room in memory, and all of them over a restart. Default: none.
    #[key(also = ["file", "files", "folder", "storage", "disk_tier"])]
    pub disk: Option<CacheDisk>,
}

/// The disk tier of the store of responses.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cache_disk", noun = "`disk` of `cache`")]
pub struct CacheDisk {
    /// The directory, for the use of one gateway alone. It is made if it is missing. Relative to the main file.
    #[key(required, text = FOLDER, parse = folder, also = ["directory", "dir", "folder", "root"])]
    pub path: Spanned<PathBuf>,
    /// Maximum bytes of all files in the directory; at least as much as `memory`.
    #[key(required, size = DISK_MIN..=SIZE_MAX, also = ["max_size", "capacity", "limit"])]
    pub size: u64,
}

impl Value for CacheStore {
    const SHAPE: Shape = Shape::AnyOf(&[MEMORY, Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let memory = reader.field(field, |text| quantity::size(text, MEMORY_MIN, SIZE_MAX))?;
        Some(Self { memory, disk: None })
    }
}

/// A response enters memory first, so the largest one has `memory` bytes. It must fit on disk as well.
fn check_sizes(reader: &mut Reader, fields: &Fields<'_>, store: &CacheStore) {
    if let Some(disk) = &store.disk
        && disk.size < store.memory
        && let Some(field) = fields.get("disk")
    {
        let problem = Problem::error(field.at, "`size` of `disk` is below `memory`")
            .help("the disk tier must have room for all that is in memory: raise `size`, or lower `memory`");
        reader.problems.push(match fields.get("memory") {
            Some(memory) => problem.related(memory.at, "`memory` is here"),
            None => problem,
        });
    }
}

fn folder(text: &str) -> Result<PathBuf, ScalarError> {
    match file_path(text)? {
        path if path.parent().is_none() && path.is_absolute() => {
            Err(ScalarError::new("{} is the root directory").help("name a directory for the cache alone"))
        }
        path => Ok(path),
    }
}

/// Returns the problem of a directory that the disk tier cannot use, or `None`. Blocks on the file system.
pub(crate) fn folder_problem(folder: &Spanned<PathBuf>) -> Option<Problem> {
    let name = shown(&folder.value.display().to_string());
    match std::fs::metadata(&folder.value) {
        Ok(data) if !data.is_dir() => Some(Problem::error(folder.at, format!("{name} is not a directory"))),
        Ok(_) if !is_writable(&folder.value) => {
            let problem = Problem::error(folder.at, format!("{name} is not writable"));
            Some(problem.help("give the gateway's user the directory, or name another one"))
        }
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = folder.value.ancestors().skip(1);
            let above = above.map(|it| if it.as_os_str().is_empty() { Path::new(".") } else { it });
            let is_possible = above.into_iter().find(|it| it.exists()).is_some_and(is_writable);
            let message = format!("{name} does not exist, and cannot be made by this user");
            (!is_possible).then(|| {
                Problem::warning(folder.at, message)
                    .help("until it exists, responses are stored in memory alone")
            })
        }
        Err(error) => Some(Problem::error(folder.at, format!("{name} cannot be used: {error}"))),
    }
}

fn is_writable(folder: &Path) -> bool {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::At;

    #[test]
    fn a_folder_must_be_one() {
        let of = |path: &Path| {
            folder_problem(&Spanned { value: path.to_owned(), at: At::default() })
                .map(|problem| problem.message)
        };
        let directory = std::env::temp_dir().join(format!("tollgate-cache-folder-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        assert_eq!(of(&directory), None);
        assert_eq!(of(&directory.join("a/b")), None, "it can be made");
        let file = directory.join("file");
        std::fs::write(&file, "").expect("a file");
        assert!(of(&file).is_some_and(|message| message.ends_with("is not a directory")));
        assert!(of(&file.join("x")).is_some(), "a file is no directory above it");
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
