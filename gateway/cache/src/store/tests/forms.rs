//! Compressed forms of stored bodies: they live with the response, and count in its cost.

use tollgate_http::ContentCoding;

use super::*;
use crate::{Purge, PurgeMode};

/// Makes a form of a stored body.
fn compress(store: &Arc<Store>, stored: &Arc<Stored>, coding: ContentCoding, form: &[u8]) {
    let mut fill = store.begin_form(stored, coding).expect("it is stored, and has no form");
    form.chunks(7).for_each(|piece| fill.push(piece));
    fill.finish();
}

fn form(store: &Store, coding: ContentCoding) -> Option<Vec<u8>> {
    hit(store, b"a", "")?.form(coding).map(|form| form.to_vec())
}

#[test]
fn a_form_is_kept_and_counted() {
    let store = store(1 << 20);
    let stored = put(&store, b"a", head(), &[7; 1000]).expect("stored");
    let (before, cost) = (store.counts(), stored.cost());
    compress(&store, &stored, ContentCoding::Gzip, b"a short form");
    assert_eq!(
        (form(&store, ContentCoding::Gzip), form(&store, ContentCoding::Brotli)),
        (Some(b"a short form".to_vec()), None)
    );
    assert!(store.begin_form(&stored, ContentCoding::Gzip).is_none(), "one form for each coding");
    compress(&store, &stored, ContentCoding::Brotli, b"another");
    let counts = store.counts();
    assert_eq!((counts.forms, counts.form_bytes), (2, stored.cost() - cost));
    assert_eq!(counts.bytes, before.bytes + counts.form_bytes);
    assert_eq!(counts.filling_bytes, 0);
    store.purge(Purge::Key(b"a"), PurgeMode::Remove);
    let counts = store.counts();
    assert_eq!((counts.bytes, counts.form_bytes), (0, 0), "a purge removes the forms too");
}

#[test]
fn of_two_makers_the_first_one_counts() {
    let store = store(1 << 20);
    let stored = put(&store, b"a", head(), b"body").expect("stored");
    let [mut one, mut two] =
        [(); 2].map(|()| store.begin_form(&stored, ContentCoding::Zstd).expect("no form yet"));
    one.push(b"one");
    two.push(b"two");
    two.finish();
    let bytes = store.counts().bytes;
    one.finish();
    assert_eq!((form(&store, ContentCoding::Zstd), store.counts().bytes), (Some(b"two".to_vec()), bytes));
    assert_eq!(store.counts().forms, 1);
}

#[test]
fn a_maker_that_ends_early_leaves_nothing() {
    let store = store(1 << 20);
    let stored = put(&store, b"a", head(), b"body").expect("stored");
    let mut fill = store.begin_form(&stored, ContentCoding::Gzip).expect("no form yet");
    fill.push(b"half");
    assert_eq!(store.counts().filling_bytes, 4);
    drop(fill);
    assert_eq!((form(&store, ContentCoding::Gzip), store.counts().filling_bytes), (None, 0));
}

#[test]
fn a_304_takes_the_forms_along_and_a_new_body_does_not() {
    let store = store(1 << 20);
    let stored = put(&store, b"a", head(), b"body").expect("stored");
    compress(&store, &stored, ContentCoding::Gzip, b"form");
    let refreshed = store.begin_alone(b"a").freshen(&stored, head()).expect("stored");
    assert_eq!((form(&store, ContentCoding::Gzip), stored.is_stored()), (Some(b"form".to_vec()), false));
    assert_eq!(store.counts().bytes, refreshed.cost());
    // A maker that began with the old object may be late: its object is not stored any more.
    assert!(store.begin_form(&stored, ContentCoding::Brotli).is_none());
    put(&store, b"a", head(), b"other");
    assert_eq!((form(&store, ContentCoding::Gzip), store.counts().form_bytes), (None, 0));
}

#[test]
fn a_form_of_what_is_gone_is_not_kept() {
    let store = store(1 << 20);
    let stored = put(&store, b"a", head(), b"body").expect("stored");
    let mut fill = store.begin_form(&stored, ContentCoding::Gzip).expect("no form yet");
    fill.push(b"form");
    store.purge(Purge::Key(b"a"), PurgeMode::Remove);
    fill.finish();
    let counts = store.counts();
    assert_eq!((stored.form(ContentCoding::Gzip), counts.forms, counts.bytes), (None, 0, 0));
}

#[test]
fn forms_make_others_give_way_and_have_bounds() {
    let store = store(10_000);
    put(&store, b"b", head(), &[0; 4_000]);
    let stored = put(&store, b"a", head(), &[0; 2_000]).expect("stored");
    compress(&store, &stored, ContentCoding::Gzip, &[1; 2_400]);
    assert!(store.counts().bytes <= 10_000 && store.counts().form_bytes > 2_000);
    compress(&store, &stored, ContentCoding::Brotli, &[2; 2_400]);
    assert!(store.counts().bytes <= 10_000, "{:?}", store.counts());
    // A quarter of the capacity may be in the making at once.
    let stored = put(&store, b"c", head(), b"body").expect("stored");
    let [mut one, mut two] =
        [ContentCoding::Gzip, ContentCoding::Zstd].map(|it| store.begin_form(&stored, it).expect("none yet"));
    one.push(&[1; 2_000]);
    two.push(&[2; 2_000]);
    one.finish();
    two.finish();
    assert!(stored.form(ContentCoding::Gzip).is_some() && stored.form(ContentCoding::Zstd).is_none());
    assert_eq!(store.counts().filling_bytes, 0);
}
