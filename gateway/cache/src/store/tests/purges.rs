//! Purges, of what is stored and of what is being fetched.

use super::*;
use crate::{Purge, PurgeMode};

fn tagged(tags: &str) -> StoredHead {
    let (asked, received) = (
        request("GET", "/", ""),
        response(200, &format!("Cache-Control: max-age=60\r\nSurrogate-Key: {tags}\r\n")),
    );
    let admission = Admission { tag_fields: vec!["surrogate-key".into()], ..Admission::default() };
    let times = Received { requested: NOW, received: NOW };
    admit(&asked, &RequestControl::default(), &received, &admission, times).expect("storable")
}

fn filled() -> Arc<Store> {
    let store = store(1 << 20);
    for (key, tags) in [("/a/1", "x y"), ("/a/2", "y"), ("/b/1", "xx")] {
        put(&store, key.as_bytes(), tagged(tags), b"body");
    }
    store
}

fn keys(store: &Store) -> Vec<String> {
    let mut keys = Vec::new();
    store.for_each(|stored| keys.push(String::from_utf8_lossy(stored.key()).into_owned()));
    keys.sort();
    keys
}

#[test]
fn purges_remove_what_they_name() {
    for (purge, left, count) in [
        (Purge::Key(b"/a/1"), &["/a/2", "/b/1"][..], 1),
        (Purge::Key(b"/a/"), &["/a/1", "/a/2", "/b/1"], 0),
        (Purge::Prefix(b"/a/"), &["/b/1"], 2),
        (Purge::Tags(&[b"y"]), &["/b/1"], 2),
        (Purge::Tags(&[b"x"]), &["/a/2", "/b/1"], 1),
        (Purge::Tags(&[b"xx", b"x"]), &["/a/2"], 2),
        (Purge::Tags(&[]), &["/a/1", "/a/2", "/b/1"], 0),
        (Purge::All, &[], 3),
    ] {
        let store = filled();
        assert_eq!(store.purge(purge, PurgeMode::Remove), count, "{purge:?}");
        assert_eq!(keys(&store), left, "{purge:?}");
        let counts = store.counts();
        assert_eq!((counts.objects, counts.bytes == 0), (left.len() as u64, left.is_empty()), "{purge:?}");
    }
}

#[test]
fn a_soft_purge_keeps_the_response() {
    let store = filled();
    assert_eq!(store.purge(Purge::Tags(&[b"y"]), PurgeMode::MarkStale), 2);
    let marked = |key: &[u8]| hit(&store, key, "").expect("kept").is_marked_stale();
    assert_eq!((marked(b"/a/1"), marked(b"/a/2"), marked(b"/b/1")), (true, true, false));
    put(&store, b"/a/1", tagged("x"), b"new");
    assert!(!marked(b"/a/1"), "the mark ends with the next response");
}

#[test]
fn a_response_that_is_on_its_way_is_purged_too() {
    for (purge, is_stored) in [
        (Purge::Key(b"/a/3"), false),
        (Purge::Key(b"/a/4"), true),
        (Purge::Prefix(b"/a"), false),
        (Purge::Tags(&[b"z"]), false),
        (Purge::Tags(&[b"q"]), true),
        (Purge::All, false),
    ] {
        let store = filled();
        let (mut fill, mut follower) = (lead(&store, b"/a/3"), follow(&store, b"/a/3"));
        assert!(fill.start(tagged("z"), None));
        store.purge(purge, PurgeMode::Remove);
        fill.push(b"old");
        assert_eq!(fill.finish().is_some(), is_stored, "{purge:?}");
        assert_eq!(hit(&store, b"/a/3", "").is_some(), is_stored, "{purge:?}");
        assert!(matches!(start(&mut follower), Start::Stored(stored) if stored.length() == 3), "{purge:?}");
    }
}

#[test]
fn tags_that_are_not_known_yet_may_be_any() {
    let store = filled();
    let mut fill = lead(&store, b"/a/3");
    store.purge(Purge::Tags(&[b"q"]), PurgeMode::Remove);
    assert!(fill.start(tagged("z"), None));
    assert!(fill.finish().is_none() && hit(&store, b"/a/3", "").is_none());
    assert_eq!(keys(&store).len(), 3);
}

#[test]
fn many_purged_objects_leave_no_entries_behind() {
    let store = store(64 << 20);
    for number in 0..5_000_u32 {
        put(&store, &number.to_be_bytes(), head(), b"");
    }
    store.purge(Purge::All, PurgeMode::Remove);
    put(&store, b"a", head(), b"");
    assert_eq!(store.counts().objects, 1);
    assert!(store.queues().entries() <= 1_100, "{}", store.queues().entries());
}

#[test]
fn a_request_after_a_purge_does_not_follow_a_fetch_from_before() {
    let store = store(1 << 20);
    for mode in [PurgeMode::Remove, PurgeMode::MarkStale] {
        let (mut old, mut before) = (lead(&store, b"a"), follow(&store, b"a"));
        store.purge(Purge::Key(b"a"), mode);
        let (new, after) = (lead(&store, b"a"), follow(&store, b"a"));
        assert!(old.start(head(), None));
        assert!(matches!(start(&mut before), Start::Streaming(..)), "it has waited since before the purge");
        drop((old, new, after));
    }
}
