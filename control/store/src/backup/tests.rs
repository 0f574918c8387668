//! Tests backups of the store.

use super::*;
use crate::store::open;
use crate::{DocumentChange, NewVersion};

fn put(name: &str, before: Option<&str>, after: Option<&str>) -> NewVersion {
    let change = DocumentChange {
        kind: "routes".to_owned(),
        name: name.to_owned(),
        before: before.map(str::to_owned),
        after: after.map(str::to_owned),
    };
    NewVersion { at: 1, who: "test".to_owned(), what: "put".to_owned(), changes: vec![change] }
}

fn texts(store: &Store) -> Vec<(String, u64, String)> {
    let contents = store.contents().expect("readable");
    contents.documents.into_iter().map(|document| (document.name, document.version, document.text)).collect()
}

#[test]
fn committed_changes_survive_a_reopen() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let store = Store::open(&path, 10).expect("a new store");
    assert_eq!(store.contents().expect("readable").version, 0);
    let first = store.commit(&[put("a", None, Some("1")), put("b", None, Some("2"))]);
    assert_eq!(first.expect("written"), 1);
    assert_eq!(store.commit(&[put("a", Some("1"), None)]).expect("written"), 3);
    assert!(matches!(Store::open(&path, 10), Err(Error::InUse)));
    drop(store);
    let store = Store::open(&path, 10).expect("the same store");
    assert_eq!(texts(&store), [("b".to_owned(), 2, "2".to_owned())]);
    assert_eq!(store.contents().expect("readable").version, 3);
}

#[test]
fn the_history_is_bounded_and_leads_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("store"), 3).expect("a new store");
    for number in 1..=5_u64 {
        let before = (number > 1).then(|| (number - 1).to_string());
        store.commit(&[put("a", before.as_deref(), Some(&number.to_string()))]).expect("written");
    }
    let versions =
        |entries: Vec<crate::VersionRecord>| entries.iter().map(|entry| entry.version).collect::<Vec<_>>();
    assert_eq!(versions(store.history(None, 10, |entry| entry).expect("readable")), [5, 4, 3]);
    assert_eq!(versions(store.history(Some(5), 1, |entry| entry).expect("readable")), [4]);
    assert_eq!(versions(store.versions_since(2).expect("it reaches back")), [5, 4, 3]);
    assert_eq!(versions(store.versions_since(5).expect("the last one")), [0_u64; 0]);
    assert!(matches!(store.versions_since(1), Err(Error::VersionExpired(2))));
    assert!(matches!(store.versions_since(6), Err(Error::UnknownVersion(6))));
    assert!(matches!(store.version(1), Err(Error::VersionExpired(3))));
    let back = store.version(4).expect("there").content.changes.remove(0).reversed();
    assert_eq!((back.before.as_deref(), back.after.as_deref()), (Some("4"), Some("3")));
}

#[test]
fn a_backup_is_a_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = Store::open(&path, 10).expect("a new store");
    store.commit(&[put("a", None, Some("1"))]).expect("written");
    let part = folder.path().join("copy.part");
    std::fs::write(&part, "another file").expect("written");
    assert!(store.backup(&copy).is_err(), "a backup overwrites nothing");
    assert_eq!(std::fs::read(&part).expect("kept"), b"another file");
    std::fs::remove_file(&part).expect("removed");
    store.backup(&copy).expect("copied");
    assert!(!part.exists());
    assert!(store.backup(&copy).is_err(), "a backup overwrites nothing");
    store.commit(&[put("b", None, Some("2"))]).expect("written");
    store.compact().expect("made small");
    assert_eq!(texts(&store).len(), 2);
    let copy = Store::open(&copy, 10).expect("a store");
    assert_eq!(texts(&copy), [("a".to_owned(), 1, "1".to_owned())]);
    assert_eq!(copy.history(None, 10, |entry| entry).expect("readable").len(), 1);
}

#[test]
fn a_closed_store_can_be_opened_by_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let store = Store::open(&path, 10).expect("a new store");
    store.close();
    assert!(matches!(store.contents(), Err(Error::Closed)));
    let other = Store::open(&path, 10).expect("free");
    assert!(matches!(store.reopen(), Err(Error::InUse)));
    drop(other);
    store.reopen().expect("free again");
    assert!(store.contents().is_ok());
}

#[test]
fn a_file_of_something_else_is_no_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    std::fs::write(&path, "listen: 127.0.0.1:8080\n".repeat(1000)).expect("written");
    assert!(Store::open(&path, 10).is_err());
    let empty = folder.path().join("other");
    drop(open(&empty).expect("a database without our tables"));
    assert!(matches!(Store::open(&empty, 10), Err(Error::NotAStore(_))));
}

#[test]
fn remains_of_a_failed_backup_do_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    std::fs::write(folder.path().join("store.new"), "half").expect("written");
    assert!(Store::open(&path, 10).is_ok());
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it can hold secrets");
}
