//! The file in which a controller keeps its list of purges.
//!
//! The [server](crate::server) writes it before it confirms a purge, so a restart loses no confirmed purge. If the file
//! cannot be read, its purges are lost: the list then starts with a purge of everything.

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use tollgate_documents::write_state;
use tollgate_net::component;
use tracing::warn;

use crate::purge_list::PurgeList;

/// The file of a list of purges.
#[derive(Debug)]
pub struct PurgeFile(PathBuf);

impl PurgeFile {
    /// Opens the file, and reads its list, or begins one with this epoch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: PathBuf, epoch: String, now: SystemTime) -> io::Result<(Self, PurgeList)> {
        let list = match std::fs::read(&path) {
            Ok(bytes) => PurgeList::parse(&bytes, now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PurgeList::new(epoch.clone())),
            Err(error) => Err(error.to_string()),
        };
        let list = list.unwrap_or_else(|why| {
            let path = path.display();
            warn!(target: component::CONTROLLER, "{path}: {why}; gateways purge everything");
            let mut list = PurgeList::new(epoch);
            list.push_all(now);
            list
        });
        let file = Self(path);
        file.write(&list)?;
        Ok((file, list))
    }

    /// Writes the list. It survives a loss of power when this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, list: &PurgeList) -> io::Result<()> {
        write_state(&self.0, &list.saved())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::PurgePosition;

    #[test]
    fn the_list_continues_and_a_damaged_file_purges_everything() {
        let folder = std::env::temp_dir().join(format!("tollgate-purges-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("purges.json");
        let now = SystemTime::now();
        let open = |epoch: &str| PurgeFile::open(path.clone(), epoch.to_owned(), now).expect("writable");
        let (file, mut list) = open("one");
        list.push(Arc::new(json!({ "tag": "a" })), now);
        file.write(&list).expect("written");
        let position = PurgePosition { epoch: "one".to_owned(), number: 1 };
        assert_eq!(open("two").1.position(), position);
        std::fs::write(&path, "{").expect("written");
        let (_, list) = open("three");
        assert_eq!((list.position().epoch.as_str(), list.kept()), ("three", 1));
        assert!(PurgeFile::open(folder.join("none/purges.json"), String::new(), now).is_err());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
