//! Sends items to a collector. Items are queued and sent in batches by the background I/O thread; a request
//! never waits.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tollgate_http::Method;
use tollgate_net::component;
use tracing::warn;

use super::collector_rule::CollectorRule;
use super::document::{ExportItem, Signal};
use crate::BackgroundIo;
use crate::client::{Http1, ServiceError, ServiceRequest};

/// The maximum number of queued items; further items are dropped and counted.
const QUEUE_MAX: usize = 8192;
/// The maximum size of all queued items in bytes.
const QUEUE_MAX_BYTES: usize = 16 << 20;
/// The maximum number of items in a batch.
const BATCH_MAX: usize = 2048;
/// The size in bytes from which a batch is complete. Collectors refuse documents of more than a few MiB.
const BATCH_BYTES: usize = 1 << 20;
/// How long the first item of a batch waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// The time limit of a request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before the only retry.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The maximum size of the collector's response in bytes.
const RESPONSE_MAX_BYTES: usize = 1 << 20;
/// The minimum time between two warnings about lost items.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The exporter to one collector. After it is dropped, the queued items are still sent.
pub(crate) struct Exporter<T> {
    rule: CollectorRule,
    items: Sender<T>,
    lost: Arc<QueueState>,
}

/// The size of the queue, and the number of lost items.
#[derive(Debug, Default)]
struct QueueState {
    bytes: AtomicUsize,
    dropped: Arc<AtomicU64>,
}

impl<T> Debug for Exporter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers are omitted because they may contain a secret.
        f.debug_struct("Exporter").field("url", &self.rule.url).field("service", &self.rule.service).finish()
    }
}

impl<T: ExportItem> Exporter<T> {
    /// Starts an exporter on the background I/O thread. `dropped` counts lost items. `ended` is dropped after
    /// the exporter was dropped and all queued items are sent.
    pub fn new<E: Send + 'static>(
        signal: Signal,
        rule: CollectorRule,
        side: &BackgroundIo,
        dropped: Arc<AtomicU64>,
        ended: E,
    ) -> Self {
        let (items, waiting) = channel(QUEUE_MAX);
        let lost = Arc::new(QueueState { bytes: AtomicUsize::new(0), dropped });
        let client = Http1::new(&rule.url, &rule.trust);
        let sending = BatchSender { signal, rule: rule.clone(), client, lost: lost.clone() };
        side.spawn(async move {
            sending.run(waiting).await;
            drop(ended);
        });
        Self { rule, items, lost }
    }

    /// Whether it was created for this rule.
    pub fn is_for(&self, rule: &CollectorRule) -> bool {
        self.rule == *rule
    }

    /// Queues an item if there is room; returns whether it was queued.
    pub fn try_queue(&self, item: T) -> bool {
        let size = item.size();
        let waiting = self.lost.bytes.fetch_add(size, Relaxed);
        let taken = waiting + size <= QUEUE_MAX_BYTES && self.items.try_send(item).is_ok();
        if !taken {
            self.lost.bytes.fetch_sub(size, Relaxed);
        }
        taken
    }

    /// Queues an item, or counts it as lost.
    pub fn queue_or_drop(&self, item: T) {
        if !self.try_queue(item) {
            self.lost.dropped.fetch_add(1, Relaxed);
        }
    }
}

struct BatchSender {
    signal: Signal,
    rule: CollectorRule,
    client: Option<Http1>,
    lost: Arc<QueueState>,
}

/// The cause of a failed attempt, and whether a retry may help.
struct SendFailure {
    why: String,
    again: bool,
}

impl BatchSender {
    /// Sends queued items until the exporter is dropped and the queue is empty.
    async fn run<T: ExportItem>(self, mut waiting: Receiver<T>) {
        let mut last_warning: Option<Instant> = None;
        while let Some(first) = waiting.recv().await {
            let mut size = first.size();
            let mut batch = vec![first];
            let until = Instant::now() + BATCH_WAIT;
            while batch.len() < BATCH_MAX && size < BATCH_BYTES {
                match timeout_at(until, waiting.recv()).await {
                    Ok(Some(item)) => {
                        size += item.size();
                        batch.push(item);
                    }
                    Ok(None) | Err(_) => break,
                }
            }
            let count = batch.len() as u64;
            let body = Bytes::from(self.signal.document(&self.rule, batch));
            let sent = self.send(body).await;
            // A batch in transmission still counts as queued.
            self.lost.bytes.fetch_sub(size, Relaxed);
            if let Err(why) = sent {
                self.lost.dropped.fetch_add(count, Relaxed);
                if last_warning.is_none_or(|last_warning| last_warning.elapsed() >= WARNING_INTERVAL) {
                    last_warning = Some(Instant::now());
                    let (dropped, (who, what)) = (self.lost.dropped.load(Relaxed), self.signal.names());
                    let url = &self.rule.url;
                    warn!(
                        target: component::POLICY,
                        "{who}: {url}: {why}; {dropped} {what} are lost so far"
                    );
                }
            }
        }
    }

    /// Sends a batch, with one retry if that may help.
    async fn send(&self, body: Bytes) -> Result<(), String> {
        match self.attempt(body.clone()).await {
            Err(failure) if failure.again => {
                sleep(RETRY_PAUSE).await;
                self.attempt(body).await.map_err(|failure| failure.why)
            }
            other => other.map_err(|failure| failure.why),
        }
    }

    async fn attempt(&self, body: Bytes) -> Result<(), SendFailure> {
        let never = |why: String| SendFailure { why, again: false };
        let again = |why: String| SendFailure { why, again: true };
        let client = self.client.as_ref().ok_or_else(|| never("no TLS can be spoken".to_owned()))?;
        let mut post = ServiceRequest { body: Some(body), ..ServiceRequest::new(Method::Post) };
        let mut whole = post.add(b"Content-Type", b"application/json");
        for (name, value) in &self.rule.headers {
            whole &= post.add(name.as_bytes(), value.reveal().as_bytes());
        }
        if !whole {
            return Err(never("one of `headers` cannot be a field".to_owned()));
        }
        match timeout(REQUEST_TIMEOUT, client.ask(&post, RESPONSE_MAX_BYTES))
            .await
            .unwrap_or(Err(ServiceError::Late))
        {
            Ok(answer) if (200..300).contains(&answer.head.status) => Ok(()),
            Ok(answer) => {
                let status = answer.head.status;
                Err(SendFailure { why: format!("it answers {status}"), again: is_transient(status) })
            }
            Err(fault) => Err(again(fault.to_string())),
        }
    }
}

/// Whether a client should retry after this status (OTLP 1.9, "Retryable Response Codes").
const fn is_transient(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::Trust;

    fn exporter(url: String, dropped: &Arc<AtomicU64>) -> (Exporter<String>, std::sync::mpsc::Receiver<()>) {
        let rule = CollectorRule {
            url,
            trust: Trust::default(),
            headers: Vec::new(),
            service: "s".to_owned(),
            resource: Vec::new(),
        };
        let (alive, ended) = std::sync::mpsc::sync_channel(0);
        // Dropping it would end the thread, so it is leaked.
        let side = Box::leak(Box::<BackgroundIo>::default());
        (Exporter::new(Signal::Logs, rule, side, dropped.clone(), alive), ended)
    }

    #[test]
    fn the_queue_for_a_hung_collector_is_bounded() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("an address");
        let url = format!("http://{}/", silent.local_addr().expect("bound"));
        let dropped = Arc::default();
        let (small, _ended) = exporter(url.clone(), &dropped);
        let taken = (0..3 * QUEUE_MAX).filter(|_| small.try_queue("{}".to_owned())).count();
        assert!((QUEUE_MAX..=QUEUE_MAX + BATCH_MAX + 1).contains(&taken), "{taken}");
        let (large, _ended) = exporter(url, &dropped);
        let item = format!("\"{}\"", "x".repeat(1 << 20));
        let taken = (0..40).filter(|_| large.try_queue(item.clone())).count();
        assert_eq!(taken, QUEUE_MAX_BYTES / item.len(), "what is under way counts");
    }

    #[test]
    fn refused_batches_are_counted_and_recovery_is_reported() {
        let nobody = TcpListener::bind("127.0.0.1:0").expect("an address").local_addr().expect("bound");
        let dropped = Arc::default();
        let (exporter, ended) = exporter(format!("http://{nobody}/"), &dropped);
        (0..3).for_each(|_| exporter.queue_or_drop("{}".to_owned()));
        drop(exporter);
        let end = ended.recv_timeout(Duration::from_secs(60));
        assert_eq!(end, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
        assert_eq!(dropped.load(Relaxed), 3);
    }
}
