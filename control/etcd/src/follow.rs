//! Follows etcd: lists the prefix, watches it, and starts again with another member when the connection
//! breaks.

use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::reach::{jittered, reach};
use crate::wire::{RangeRequest, Streamed, WatchResponse, encoded, end_of};
use crate::{Entry, Error, News};

/// How often the member is asked whether it still has a quorum.
const PROBE: Duration = Duration::from_millis(500);
/// Time limit for that answer.
const PROBED: Duration = Duration::from_millis(1500);
/// Bound of one message of a watch, in bytes.
const LARGEST: usize = 256 << 20;
/// Pause after a member that answers, but wrongly.
const PAUSE: Duration = Duration::from_millis(300);

/// Sends all entries, then every change, until the receiver is dropped. `from` is the revision that is
/// already known; 0: none.
pub(crate) async fn follow(client: &Client, from: u64, news: &mpsc::Sender<News>) {
    let mut known = from;
    let mut cluster = None;
    let mut next = client.current();
    loop {
        let tell = async |what: News| drop(news.send(what).await);
        let (member, standing) = reach(client, next, tell).await;
        // Another cluster, or a cluster restored to an earlier state: its revisions do not continue the known
        // ones.
        if cluster.replace(standing.cluster).is_some_and(|before| before != standing.cluster)
            || standing.revision < known
        {
            known = 0;
        }
        next = member + 1;
        let endpoint = client.endpoint(member).to_owned();
        if news.send(News::Connected { endpoint: endpoint.clone() }).await.is_err() {
            return;
        }
        let why = match session(client, member, &mut known, news).await {
            Ok(()) => return,
            Err(Error::Compacted(_)) => {
                // The changes since then are no longer known: list everything again, from the same member.
                known = 0;
                next = member;
                continue;
            }
            Err(error) => error,
        };
        let why = format!("{endpoint}: {why}");
        if news.send(News::Lost { why }).await.is_err() {
            return;
        }
        tokio::time::sleep(jittered(PAUSE)).await;
    }
}

/// Follows one member until it fails, or until the receiver is dropped (`Ok`).
async fn session(
    client: &Client,
    member: usize,
    known: &mut u64,
    news: &mpsc::Sender<News>,
) -> Result<(), Error> {
    let prefix = client.settings().watched();
    if *known == 0 {
        let listed = client.list(&RangeRequest::under(&prefix)).await?;
        let entries = listed.entries.into_iter().map(|entry| below(&prefix, entry)).collect();
        *known = listed.revision;
        if news.send(News::All { revision: listed.revision, entries }).await.is_err() {
            return Ok(());
        }
    }
    let body = json!({ "create_request": {
        "key": encoded(prefix.as_bytes()),
        "range_end": encoded(&end_of(prefix.as_bytes())),
        "start_revision": known.saturating_add(1).to_string(),
        "progress_notify": true,
    } });
    let mut messages = Messages { stream: client.stream(member, &body).await?, kept: BytesMut::new() };
    let probes = async {
        loop {
            tokio::time::sleep(jittered(PROBE)).await;
            if let Err(error) = client.probe(member, PROBED).await {
                return error;
            }
        }
    };
    tokio::pin!(probes);
    loop {
        let message = tokio::select! {
            message = messages.next() => message?,
            error = &mut probes => return Err(error),
        };
        if message.compact_revision > 0 {
            return Err(Error::Compacted(Some(message.compact_revision)));
        }
        if message.canceled {
            return Err(Error::Refused(0, format!("the watch was ended: {}", message.cancel_reason)));
        }
        if let Some(revision) = message.progress() {
            *known = revision.max(*known);
        }
        let entries: Vec<Entry> = message
            .events
            .into_iter()
            .map(|event| {
                let value = (event.kind != "DELETE").then_some(event.kv.value.0);
                let key = String::from_utf8_lossy(&event.kv.key.0).into_owned();
                below(&prefix, Entry { key, value, revision: event.kv.mod_revision })
            })
            .collect();
        // While a watcher catches up, a message can hold revisions before the header's.
        let Some(last) = entries.iter().map(|entry| entry.revision).max() else { continue };
        if news.send(News::Changes { revision: last, entries }).await.is_err() {
            return Ok(());
        }
        *known = last.max(*known);
    }
}

fn below(prefix: &str, entry: Entry) -> Entry {
    let key = entry.key.strip_prefix(prefix).unwrap_or(&entry.key).to_owned();
    Entry { key, ..entry }
}

/// The messages of a watch: one line of JSON each.
struct Messages {
    stream: Incoming,
    kept: BytesMut,
}

impl Messages {
    async fn next(&mut self) -> Result<WatchResponse, Error> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.kept[looked..].iter().position(|byte| *byte == b'\n') {
                let line = self.kept.split_to(looked + end + 1);
                let message: Streamed<WatchResponse> =
                    serde_json::from_slice(&line).map_err(|error| Error::Garbled(error.to_string()))?;
                return match message {
                    Streamed { result: Some(result), .. } => Ok(result),
                    Streamed { error: Some(failure), .. } => {
                        Err(Error::Refused(failure.code, failure.message))
                    }
                    _ => Err(Error::Garbled("a message of a watch says nothing".to_owned())),
                };
            }
            looked = self.kept.len();
            if looked > LARGEST {
                return Err(Error::Garbled(format!("a message of more than {LARGEST} bytes")));
            }
            match self.stream.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.kept.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(Error::Unreachable(format!("the watch broke off: {error}"))),
                None => return Err(Error::Unreachable("the watch has ended".to_owned())),
            }
        }
    }
}
