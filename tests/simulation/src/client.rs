//! Clients of the simulation: they send requests and check the answers, and some misbehave.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tollgate_net::simulated;

use crate::message::{Framing, Head, chunk};
use crate::origin::ANSWERS;
use crate::pattern;
use crate::recorder::{Answer, Got, Recorder};
use crate::sabotage::Sabotage;
use crate::scenario::{Ask, Batch, Body, ClientPlan, GATEWAY, Leave};
use crate::wire::{Broken, Pace, Reader, Wire};

/// How long a client waits for `100 Continue` before it sends its body anyway (RFC 9110, 10.1.1).
const CONTINUE: Duration = Duration::from_millis(300);

/// How often a client checks whether its body has been sent.
const WRITTEN: Duration = Duration::from_millis(1);
/// How long a client continues to send its body after the answer.
const REST: Duration = Duration::from_secs(1);

/// Plays a client to its end.
pub async fn play(plan: ClientPlan, recorder: Recorder, sabotage: Option<Sabotage>) {
    let jar = Jar::default();
    simulated::sleep(plan.start).await;
    let mut port = 10_000;
    let mut line: Option<Line> = None;
    let last = plan.batches.len().saturating_sub(1);
    for (index, batch) in plan.batches.iter().enumerate() {
        simulated::sleep(batch.pause).await;
        if batch.fresh || !line.as_ref().is_some_and(Line::is_open) {
            port += 1;
            let local = SocketAddr::new(IpAddr::V4(plan.address), port);
            // The old connection closes first, as for a client with one connection.
            drop(line.take());
            line = Line::open(local, &plan, &recorder, (&jar, sabotage)).await;
        }
        let Some(line) = &mut line else {
            batch.asks.iter().for_each(|ask| {
                recorder.ask(ask);
                recorder.got(ask.number, Got::NoConnection);
            });
            continue;
        };
        line.batch(batch, plan.half_close && index == last).await;
    }
}

/// A client's connection.
struct Line {
    wire: Wire,
    reader: Reader,
    recorder: Recorder,
    jar: Jar,
    open: bool,
    sabotage: Option<Sabotage>,
}

/// A client's cookies, by name.
#[derive(Clone, Debug, Default)]
struct Jar(Rc<RefCell<BTreeMap<String, String>>>);

impl Jar {
    /// Stores the cookies that an answer sets.
    fn take(&self, head: &Head) {
        for (_, value) in head.fields.iter().filter(|(name, _)| name == "set-cookie") {
            let pair = value.split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                self.0.borrow_mut().insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
    }

    /// Returns the cookies as a `Cookie` line, or `None` if there are none.
    fn line(&self) -> Option<String> {
        let jar = self.0.borrow();
        let pairs: Vec<_> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| format!("Cookie: {}\r\n", pairs.join("; ")))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.wire.close(false);
    }
}

/// The state that the writing and the reading task of a batch share.
#[derive(Debug, Default)]
struct Progress {
    /// `100 Continue` or an answer has arrived.
    go_on: Cell<bool>,
    /// Everything was written.
    written: Cell<bool>,
    /// The client has closed.
    left: Cell<bool>,
}

impl Line {
    async fn open(
        local: SocketAddr,
        plan: &ClientPlan,
        recorder: &Recorder,
        (jar, sabotage): (&Jar, Option<Sabotage>),
    ) -> Option<Self> {
        let stream = simulated::connect_from(local, GATEWAY).await.ok()?;
        let wire = Wire::new(stream);
        let reader = Reader::new(wire.clone(), plan.pace);
        Some(Self { wire, reader, recorder: recorder.clone(), jar: jar.clone(), open: true, sabotage })
    }

    fn is_open(&self) -> bool {
        self.open
    }

    /// Sends a batch and reads its answers.
    async fn batch(&mut self, batch: &Batch, says_last: bool) {
        for ask in &batch.asks {
            self.recorder.ask(ask);
        }
        let progress = Rc::new(Progress::default());
        let sending = (self.wire.clone(), batch.clone(), self.jar.clone());
        tollgate_net::spawn(send(sending, progress.clone(), says_last));
        let mut reported = false;
        for ask in &batch.asks {
            if !self.open {
                let got = match (progress.left.get(), reported) {
                    (true, _) => Got::Left,
                    (_, true) => Got::Told,
                    _ => Got::Cut { status: None },
                };
                self.recorder.got(ask.number, got);
                continue;
            }
            match self.answer(ask, &progress).await {
                Ok((got, goes_on)) => {
                    reported = !goes_on;
                    self.open = goes_on;
                    match self.sabotage {
                        Some(Sabotage::ForgetAnswers) => {}
                        _ => self.recorder.got(ask.number, got),
                    }
                }
                Err((broken, status)) => {
                    self.open = false;
                    if let Broken::Malformed(what) = broken {
                        self.recorder.violation(format!("request {}: {what}", ask.number));
                    }
                    let got = if progress.left.get() { Got::Left } else { Got::Cut { status } };
                    self.recorder.got(ask.number, got);
                }
            }
        }
        // An answer may arrive before the whole body was sent. The body must end before the next request
        // begins (RFC 9112, 9.3). Otherwise the client takes another connection, because the gateway waits
        // for the body for 2 s only.
        let mut waited = Duration::ZERO;
        while self.open && !progress.written.get() && !progress.left.get() {
            simulated::sleep(WRITTEN).await;
            waited += WRITTEN;
            self.open = waited < REST;
        }
        self.open &= !progress.left.get() && !says_last;
        if !self.open {
            self.wire.close(false);
        }
    }

    /// Reads one answer. Returns the outcome, and whether the connection stays open.
    async fn answer(&mut self, ask: &Ask, progress: &Progress) -> Result<(Got, bool), (Broken, Option<u16>)> {
        let head = loop {
            let head = self.reader.head().await.map_err(|broken| (broken, None))?;
            progress.go_on.set(true);
            match head.status() {
                101 => return self.tunnel(ask, &head, progress).await,
                100..200 => {}
                _ => break head,
            }
        };
        self.jar.take(&head);
        let status = head.status();
        let failed = |broken| (broken, Some(status));
        let malformed = |what: String| (Broken::Malformed(what), Some(status));
        let framing = head.response_framing(ask.method).map_err(malformed)?;
        let delivery = self.check_head(ask, &head).map_err(malformed)?;
        let mut length = 0;
        let read = self.reader.body(framing, |bytes| {
            let good = delivery.is_none_or(|delivery| pattern::is(ANSWERS + delivery as u64, length, bytes));
            length += bytes.len();
            if good { Ok(()) } else { Err(format!("another's bytes in the answer of {delivery:?}")) }
        });
        read.await.map_err(failed)?;
        self.check_whole(ask, status, framing, delivery, length).map_err(malformed)?;
        let reason = head.get("tollgate-reason").map(str::to_owned);
        if reason.as_deref() == Some("connection_limit") {
            self.recorder.write().turned_away += 1;
        }
        let keeps =
            if ask.old { head.lists("connection", "keep-alive") } else { !head.lists("connection", "close") };
        // An answer before the fault in the body cannot announce that the connection ends with the fault.
        let is_broken = matches!(ask.body, Body::Broken(_));
        let goes_on = keeps && framing != Framing::Close && !ask.close && !ask.old && !is_broken;
        Ok((Got::Whole(Answer { status, reason, delivery, length }), goes_on))
    }

    /// Checks that an answer belongs to this request. Returns the delivery that it answers.
    fn check_head(&self, ask: &Ask, head: &Head) -> Result<Option<usize>, String> {
        let Some(id) = head.get("x-id") else {
            return match head.get("tollgate-reason") {
                Some(_) => Ok(None),
                None => Err(format!("an answer of nobody's: {head:?}")),
            };
        };
        if id != ask.number.to_string() {
            return Err(format!("another's answer: {head:?}"));
        }
        let delivery: Option<usize> = head.get("x-delivery").and_then(|number| number.parse().ok());
        let delivery = delivery.ok_or_else(|| format!("an answer without a delivery: {head:?}"))?;
        let record = self.recorder.read();
        let planned = record.deliveries.get(delivery).filter(|known| known.request == ask.number);
        let planned =
            planned.and_then(|known| known.answer).ok_or_else(|| format!("nobody answered so: {head:?}"))?;
        if planned.status != head.status() {
            return Err(format!("another status than {}: {head:?}", planned.status));
        }
        Ok(Some(delivery))
    }

    /// Checks that an answer that ends like a whole one is whole.
    fn check_whole(
        &self,
        ask: &Ask,
        status: u16,
        framing: Framing,
        delivery: Option<usize>,
        length: usize,
    ) -> Result<(), String> {
        let Some(delivery) = delivery else { return Ok(()) };
        let record = self.recorder.read();
        let Some(planned) = record.deliveries[delivery].answer else { return Ok(()) };
        let cut = planned.to_the_end && !planned.finished;
        if cut && !planned.detectable {
            return Ok(());
        }
        if cut || length != planned.length {
            return Err(format!(
                "an answer that was cut looks whole: {status} {framing:?} to {} with {length} bytes of {planned:?}",
                ask.method
            ));
        }
        Ok(())
    }

    /// Sends bytes through a tunnel, and checks that they come back.
    async fn tunnel(
        &mut self,
        ask: &Ask,
        head: &Head,
        progress: &Progress,
    ) -> Result<(Got, bool), (Broken, Option<u16>)> {
        let failed = |broken| (broken, Some(101));
        let Some(length) = ask.upgrade else {
            return Err(failed(Broken::Malformed("a tunnel that nobody asked for".to_owned())));
        };
        if head.get("x-id") != Some(&ask.number.to_string()) {
            return Err(failed(Broken::Malformed(format!("another's tunnel: {head:?}"))));
        }
        let (wire, number) = (self.wire.clone(), ask.number);
        tollgate_net::spawn(async move {
            for start in (0..length).step_by(5000) {
                let piece = pattern::bytes(number, start, 5000.min(length - start));
                if wire.write(&piece).await.is_err() {
                    return;
                }
            }
            wire.shutdown().await;
        });
        let mut came = 0;
        let whole = loop {
            match self.reader.some(usize::MAX).await {
                Ok(bytes) if bytes.is_empty() => break came == length,
                Ok(bytes) => {
                    if !pattern::is(number, came, &bytes) {
                        return Err(failed(Broken::Malformed("another's bytes in a tunnel".to_owned())));
                    }
                    came += bytes.len();
                }
                Err(_) => break false,
            }
        };
        let got = if progress.left.get() { Got::Left } else { Got::Tunnel { whole } };
        Ok((got, false))
    }
}

/// Writes a batch.
async fn send((wire, batch, jar): (Wire, Batch, Jar), progress: Rc<Progress>, says_last: bool) {
    let mut budget = batch.leave.map(|(bytes, ..)| bytes);
    for ask in &batch.asks {
        let (head, body) = request(ask, &jar);
        let sent = piecewise(&wire, &head, batch.pace, &mut budget).await;
        if sent && ask.expect {
            let mut waited = Duration::ZERO;
            while !progress.go_on.get() && waited < CONTINUE {
                simulated::sleep(Duration::from_millis(5)).await;
                waited += Duration::from_millis(5);
            }
        }
        if !sent || !piecewise(&wire, &body, batch.pace, &mut budget).await {
            break;
        }
    }
    if let Some((_, after, how)) = batch.leave {
        simulated::sleep(after).await;
        progress.left.set(true);
        return wire.close(how == Leave::Reset);
    }
    progress.written.set(true);
    if says_last && batch.asks.iter().all(|ask| ask.upgrade.is_none()) {
        wire.shutdown().await;
    }
}

/// Writes in pieces, and no more than the budget. Returns whether everything was written.
async fn piecewise(wire: &Wire, bytes: &[u8], pace: Pace, budget: &mut Option<usize>) -> bool {
    let most = budget.unwrap_or(usize::MAX).min(bytes.len());
    for piece in bytes[..most].chunks(pace.piece) {
        if wire.write(piece).await.is_err() {
            return false;
        }
        if !pace.pause.is_zero() {
            simulated::sleep(pace.pause).await;
        }
    }
    if let Some(budget) = budget {
        *budget -= most;
    }
    most == bytes.len()
}

/// Returns a request's head and body.
fn request(ask: &Ask, jar: &Jar) -> (Vec<u8>, Vec<u8>) {
    let Ask { number, method, route, .. } = ask;
    let version = if ask.old { "1.0" } else { "1.1" };
    let mut head = format!("{method} /r{route}/{number} HTTP/{version}\r\nHost: test\r\nX-Id: {number}\r\n");
    if let Some(cookies) = jar.line() {
        head.push_str(&cookies);
    }
    if ask.close {
        head.push_str("Connection: close\r\n");
    }
    if ask.expect {
        head.push_str("Expect: 100-continue\r\n");
    }
    if ask.upgrade.is_some() {
        head.push_str("Connection: upgrade\r\nUpgrade: websocket\r\n");
    }
    let bytes = pattern::bytes(*number, 0, ask.body.length());
    let mut body = Vec::new();
    match ask.body {
        Body::None => {}
        Body::Length(length) => {
            head.push_str(&format!("Content-Length: {length}\r\n"));
            body = bytes;
        }
        Body::Broken(length) => {
            head.push_str("Transfer-Encoding: chunked\r\n");
            chunk(&mut body, &bytes);
            // A size with a blank after it, or a negative size.
            body.extend_from_slice(if length % 2 == 0 { b"5 \r\nabcde\r\n0\r\n\r\n" } else { b"-1\r\n\r\n" });
        }
        Body::Chunked(size, _, trailers) => {
            head.push_str("Transfer-Encoding: chunked\r\n");
            bytes.chunks(size.max(1)).for_each(|data| chunk(&mut body, data));
            body.extend_from_slice(if trailers { b"0\r\nX-Trailer: here\r\n\r\n" } else { b"0\r\n\r\n" });
        }
    }
    head.push_str("\r\n");
    (head.into_bytes(), body)
}
