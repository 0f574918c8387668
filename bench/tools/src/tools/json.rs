//! Parses the JSON that tools print.

use super::{classify, count_statuses};
use crate::output::{Misunderstood, Output};
use crate::request::Request;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use tollgate_lab_record::{Failures, LoadResult};

/// Parses the JSON value in a text, ignoring text before its first brace and after its end.
pub(super) fn read<T: DeserializeOwned>(
    tool: &'static str,
    place: &str,
    text: &str,
    output: &Output,
) -> Result<T, Misunderstood> {
    let json = text.find('{').map_or("", |at| &text[at..]);
    let reported = serde_json::Deserializer::from_str(json).into_iter().next();
    reported
        .unwrap_or_else(|| Err(serde::de::Error::custom("there is no '{' in it")))
        .map_err(|error| Misunderstood::new(tool, format!("its result in JSON {place} ({error})"), output))
}

/// Adds responses by status, given as text. Returns how many had no status, which are failures of another
/// kind.
pub(super) fn statuses(result: &mut LoadResult, request: &Request, reported: &BTreeMap<String, u64>) -> u64 {
    let mut without = 0u64;
    let mut by_status = BTreeMap::new();
    for (status, count) in reported {
        match status.parse::<u16>() {
            Ok(status) if status > 0 => _ = by_status.insert(status, *count),
            _ => without = without.saturating_add(*count),
        }
    }
    count_statuses(result, request, by_status);
    without
}

/// Classifies failures if the tool reports only their number and a list of error messages. All go to the kind
/// that every message suggests, or to `read` if the messages disagree.
pub(super) fn classify_together<'a>(
    failures: &mut Failures,
    words: impl Iterator<Item = &'a str>,
    count: u64,
) {
    let kinds: Vec<Failures> = words
        .map(|words| {
            let mut one = Failures::default();
            classify(&mut one, words, count);
            one
        })
        .collect();
    match &kinds[..] {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => {
            *failures = Failures { status: failures.status, ..first.clone() };
        }
        _ => failures.read = failures.read.saturating_add(count),
    }
}
