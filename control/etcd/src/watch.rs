//! Follows etcd: lists the prefix, watches it, and starts again with another member when the connection
//! breaks.

use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::mpsc;

use crate::client::EtcdClient;
use crate::members::{find_member, with_jitter};
use crate::wire::{RangeRequest, StreamMessage, WatchResponse, encode_base64, prefix_end};
use crate::{Error, EtcdEntry, EtcdEvent};

/// How often the member is asked whether it still has a quorum.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit for that answer.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1500);
/// Bound of one message of a watch, in bytes.
const MESSAGE_MAX_BYTES: usize = 256 << 20;
/// Pause after a member that answers, but wrongly.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// Sends all entries under a prefix, then every change, until the receiver is dropped.
pub(crate) async fn watch_entries(client: &EtcdClient, prefix: &str, events: &mpsc::Sender<EtcdEvent>) {
    let mut known = 0;
    let mut cluster = None;
    let mut next = client.current();
    loop {
        let (member, state) = find_member(client, next, events).await;
        // Another cluster, or a cluster restored to an earlier state: its revisions do not continue the known
        // ones.
        if cluster.replace(state.cluster).is_some_and(|before| before != state.cluster)
            || state.revision < known
        {
            known = 0;
        }
        next = member + 1;
        let endpoint = client.endpoint(member).to_owned();
        if events.send(EtcdEvent::Connected { endpoint: endpoint.clone() }).await.is_err() {
            return;
        }
        let why = match watch_member(client, member, prefix, &mut known, events).await {
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
        if events.send(EtcdEvent::Disconnected { why }).await.is_err() {
            return;
        }
        tokio::time::sleep(with_jitter(RETRY_PAUSE)).await;
    }
}

/// Follows one member until it fails, or until the receiver is dropped (`Ok`).
async fn watch_member(
    client: &EtcdClient,
    member: usize,
    prefix: &str,
    known: &mut u64,
    events: &mpsc::Sender<EtcdEvent>,
) -> Result<(), Error> {
    if *known == 0 {
        let listed = client.list(&RangeRequest::with_prefix(prefix)).await?;
        let entries = listed.entries.into_iter().map(|entry| without_prefix(prefix, entry)).collect();
        *known = listed.revision;
        if events.send(EtcdEvent::Snapshot { revision: listed.revision, entries }).await.is_err() {
            return Ok(());
        }
    }
    let body = json!({ "create_request": {
        "key": encode_base64(prefix.as_bytes()),
        "range_end": encode_base64(&prefix_end(prefix.as_bytes())),
        "start_revision": known.saturating_add(1).to_string(),
        "progress_notify": true,
    } });
    let mut messages =
        WatchStream { stream: client.open_watch(member, &body).await?, buffer: BytesMut::new() };
    let probes = async {
        loop {
            tokio::time::sleep(with_jitter(PROBE_INTERVAL)).await;
            if let Err(error) = client.probe(member, PROBE_TIMEOUT).await {
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
        if let Some(revision) = message.progress_revision() {
            *known = revision.max(*known);
        }
        let entries: Vec<EtcdEntry> = message
            .events
            .into_iter()
            .map(|event| {
                let value = (event.kind != "DELETE").then_some(event.kv.value.0);
                let key = String::from_utf8_lossy(&event.kv.key.0).into_owned();
                without_prefix(prefix, EtcdEntry { key, value, revision: event.kv.mod_revision })
            })
            .collect();
        // While a watcher catches up, a message can hold revisions before the header's.
        let Some(last) = entries.iter().map(|entry| entry.revision).max() else { continue };
        if events.send(EtcdEvent::Changes { revision: last, entries }).await.is_err() {
            return Ok(());
        }
        *known = last.max(*known);
    }
}

fn without_prefix(prefix: &str, entry: EtcdEntry) -> EtcdEntry {
    let key = entry.key.strip_prefix(prefix).unwrap_or(&entry.key).to_owned();
    EtcdEntry { key, ..entry }
}

/// The messages of a watch: one line of JSON each.
struct WatchStream {
    stream: Incoming,
    buffer: BytesMut,
}

impl WatchStream {
    async fn next(&mut self) -> Result<WatchResponse, Error> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(searched + end + 1);
                let message: StreamMessage<WatchResponse> = serde_json::from_slice(&line)
                    .map_err(|error| Error::InvalidResponse(error.to_string()))?;
                return match message {
                    StreamMessage { result: Some(result), .. } => Ok(result),
                    StreamMessage { error: Some(error), .. } => {
                        Err(Error::Refused(error.code, error.message))
                    }
                    _ => Err(Error::InvalidResponse("a message of a watch says nothing".to_owned())),
                };
            }
            searched = self.buffer.len();
            if searched > MESSAGE_MAX_BYTES {
                return Err(Error::InvalidResponse(format!(
                    "a message of more than {MESSAGE_MAX_BYTES} bytes"
                )));
            }
            match self.stream.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(Error::Unreachable(format!("the watch broke off: {error}"))),
                None => return Err(Error::Unreachable("the watch has ended".to_owned())),
            }
        }
    }
}
