//! Origins of the simulation: servers that behave well or badly, by their manners.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use tollgate_net::simulated::{self, TaskGroup};
use tollgate_net::{Address, Stream};
use tollgate_plan::Endpoint;

use crate::front::{self, Front};
use crate::message::{Framing, Head, chunk};
use crate::pattern;
use crate::recorder::{Planned, Recorder};
use crate::sabotage::Sabotage;
use crate::scenario::{Act, Lie, Manners, OriginPlan, PROBE, UPSTREAMS, Where};
use crate::wire::{self, Broken, Pace, Reader, Wire};

/// The pattern numbers of answers start here, above the numbers of requests.
pub const ANSWERS: u64 = 1_000_000;

/// An answer without a request.
const UNASKED: &[u8] = b"HTTP/1.1 200 OK\r\nX-Id: unasked\r\nContent-Length: 0\r\n\r\n";

/// An origin, which can crash and come back.
#[derive(Debug)]
pub struct Origin {
    plan: OriginPlan,
    recorder: Recorder,
    rng: Rc<RefCell<Rng>>,
    sabotage: Option<Sabotage>,
    state: RefCell<(IpAddr, TaskGroup)>,
}

impl Origin {
    /// Starts an origin.
    #[must_use]
    pub fn start(plan: &OriginPlan, recorder: &Recorder, seed: u64, sabotage: Option<Sabotage>) -> Rc<Self> {
        let rng = Rng::with_seed(seed ^ (plan.number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let origin = Rc::new(Self {
            plan: plan.clone(),
            recorder: recorder.clone(),
            rng: Rc::new(RefCell::new(rng)),
            sabotage,
            state: RefCell::new((plan.ip, simulated::new_group())),
        });
        origin.go();
        origin
    }

    /// Returns the group in which the origin runs.
    #[must_use]
    pub fn group(&self) -> TaskGroup {
        self.state.borrow().1
    }

    /// Returns the current address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.state.borrow().0
    }

    /// Lets no bytes through to or from the origin for this time.
    pub fn hold(&self, time: Duration) {
        [self.ip(), alias(self.ip())].into_iter().for_each(|ip| simulated::delay_address(ip, time));
    }

    /// Returns the endpoint that a look-up for an upstream finds now.
    #[must_use]
    pub fn endpoint(&self, upstream: usize, weight: u32) -> Endpoint {
        let address = Address::Socket(SocketAddr::new(self.ip(), self.plan.port(upstream)));
        Endpoint { address, weight, priority: 0, zone: None }
    }

    fn go(&self) {
        let (ip, group) = *self.state.borrow();
        if let Some(name) = &self.plan.name {
            simulated::resolve(name, vec![alias(ip)]);
        }
        for (upstream, ip) in
            (0..UPSTREAMS.len()).flat_map(|upstream| [(upstream, ip), (upstream, alias(ip))])
        {
            let server = Server {
                number: self.plan.number,
                upstream,
                manners: self.plan.manners.clone(),
                recorder: self.recorder.clone(),
                rng: self.rng.clone(),
                sabotage: self.sabotage,
                has_front: self.plan.http2[upstream],
            };
            let address = SocketAddr::new(ip, self.plan.port(upstream));
            if !server.has_front {
                simulated::spawn_in(group, listen(Rc::new(server), address));
                continue;
            }
            let front = Front {
                address,
                backlog: server.manners.backlog,
                leaves: server.manners.closes_idle,
                rng: self.rng.borrow_mut().fork(),
            };
            simulated::spawn_in(group, listen(Rc::new(server), front::server(address)));
            simulated::spawn_in(group, front.listen());
        }
    }

    /// Crashes, and comes back after this time.
    pub async fn crash(&self, time: Duration) {
        simulated::kill(self.group());
        simulated::sleep(time).await;
        // Unless the origin has started again at another address in this time.
        let dead = simulated::tasks(self.group()) == 0;
        if dead {
            self.state.borrow_mut().1 = simulated::new_group();
            self.go();
        }
    }

    /// Crashes, and starts again at another address under its old name.
    pub fn change_address(&self, ip: IpAddr) {
        simulated::kill(self.group());
        *self.state.borrow_mut() = (ip, simulated::new_group());
        self.go();
    }

    /// Ends for good.
    pub fn end(&self) {
        simulated::kill(self.group());
    }
}

/// Returns the address to which an origin's name resolves. It differs from the address in plans and look-ups.
/// A plan that names an origin in both ways therefore has two endpoints with a limit each, and the network
/// can tell them apart.
fn alias(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let [first, _, third, fourth] = ip.octets();
            IpAddr::from([first, 3, third, fourth])
        }
        other => other,
    }
}

#[derive(Debug)]
struct Server {
    number: usize,
    upstream: usize,
    manners: Manners,
    recorder: Recorder,
    rng: Rc<RefCell<Rng>>,
    sabotage: Option<Sabotage>,
    /// Whether an HTTP/2 front stands before it.
    has_front: bool,
}

async fn listen(server: Rc<Server>, address: SocketAddr) {
    let Some(listener) = wire::listen(address, server.manners.backlog) else { return };
    loop {
        let accepted = poll_fn(|cx| listener.poll_accept(cx)).await;
        let Ok(stream) = accepted.and_then(|(accepted, _)| accepted.attach()) else { return };
        tollgate_net::spawn(serve(server.clone(), stream));
    }
}

/// Returns the output of the future that completes first.
async fn either<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(value),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await
}

/// Whether a connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Next,
    Close,
    Reset,
}

async fn serve(server: Rc<Server>, stream: Stream) {
    let wire = Wire::new(stream);
    let mut reader = Reader::new(wire.clone(), Pace::default());
    let mut first = true;
    loop {
        if !first && !server.idle(&wire, &mut reader).await {
            return wire.close(false);
        }
        first = false;
        match server.request(&wire, &mut reader).await {
            Then::Next => {}
            Then::Close => return wire.close(false),
            Then::Reset => return wire.close(true),
        }
    }
}

/// The facts about a request from which its answer is made.
struct Case {
    request: u64,
    delivery: usize,
    method: String,
    framing: Framing,
    /// Whether the gateway's request announces the end of the connection.
    closes: bool,
    http10: bool,
    upgrade: bool,
    expect: bool,
}

impl Server {
    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.borrow_mut())
    }

    fn one_in(&self, of: u32) -> bool {
        of > 0 && self.draw(|rng| rng.u32(0..of)) == 0
    }

    /// Waits for the next request, or misbehaves on the idle connection. Returns whether the connection stays
    /// open.
    async fn idle(&self, wire: &Wire, reader: &mut Reader) -> bool {
        let after = Duration::from_micros(self.draw(|rng| rng.u64(0..3_000_000)));
        if self.one_in(self.manners.closes_idle) {
            let late = async {
                simulated::sleep(after).await;
                Err(Broken::Nothing)
            };
            return either(reader.wait(), late).await.is_ok();
        }
        if self.one_in(self.manners.unsolicited) {
            let late = async {
                simulated::sleep(after).await;
                wire.send_unsolicited(UNASKED);
                std::future::pending().await
            };
            return either(reader.wait(), late).await.is_ok();
        }
        true
    }

    async fn request(&self, wire: &Wire, reader: &mut Reader) -> Then {
        let head = match reader.head().await {
            Ok(head) => head,
            Err(Broken::Malformed(what)) => {
                self.recorder.violation(format!("origin {} got no HTTP: {what}", self.number));
                return Then::Reset;
            }
            Err(_) => return Then::Close,
        };
        if head.word(1) == PROBE {
            return self.probed(wire).await;
        }
        let case = match self.case(&head) {
            Ok(case) => case,
            Err(what) => {
                self.recorder.violation(format!("origin {}: {what}", self.number));
                return Then::Reset;
            }
        };
        if case.upgrade {
            return self.upgrade(wire, reader, &case).await;
        }
        self.act(wire, reader, &case).await
    }

    /// Answers a probe, as healthy or not.
    async fn probed(&self, wire: &Wire) -> Then {
        simulated::sleep(self.within(self.manners.slowest)).await;
        let well = !self.one_in(self.manners.unwell);
        let status = if well { "200 OK" } else { "503 Service Unavailable" };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        // The prober may have timed out.
        let _ = wire.write(answer.as_bytes()).await;
        Then::Close
    }

    /// Records that a request has arrived.
    fn deliver(&self, request: u64, head: &Head) -> usize {
        let cookie = head.get("cookie").map(str::to_owned);
        let delivery = self.recorder.deliver(request, (self.number, self.upstream), cookie);
        if self.sabotage == Some(Sabotage::DeliverTwice) {
            self.recorder.deliver(request, (self.number, self.upstream), None);
        }
        delivery
    }

    fn case(&self, head: &Head) -> Result<Case, String> {
        let request = head.get("x-id").and_then(|id| id.parse().ok());
        let request: u64 = request.ok_or_else(|| format!("a request without a number: {head:?}"))?;
        if !head.word(1).ends_with(&format!("/{request}")) {
            return Err(format!("request {request} has another's target: {head:?}"));
        }
        if !self.recorder.read().asked.contains_key(&request) {
            return Err(format!("request {request}, which nobody asked"));
        }
        Ok(Case {
            request,
            delivery: self.deliver(request, head),
            method: head.word(0).to_owned(),
            framing: head.request_framing()?,
            closes: head.lists("connection", "close"),
            http10: head.word(2) == "HTTP/1.0",
            upgrade: head.lists("connection", "upgrade"),
            expect: head.lists("expect", "100-continue"),
        })
    }

    /// Reads the request's body and compares it with the expected bytes.
    async fn body(&self, reader: &mut Reader, case: &Case) -> Result<(), Then> {
        let mut offset = 0;
        let read = reader.body(case.framing, |bytes| {
            let good = pattern::is(case.request, offset, bytes);
            offset += bytes.len();
            if good { Ok(()) } else { Err("another's bytes in a request's body".to_owned()) }
        });
        match read.await {
            Ok(()) => {
                self.recorder.write().deliveries[case.delivery].whole = true;
                Ok(())
            }
            Err(Broken::Malformed(what)) => {
                self.recorder.violation(format!("origin {}, request {}: {what}", self.number, case.request));
                Err(Then::Reset)
            }
            Err(_) => Err(Then::Close),
        }
    }

    async fn act(&self, wire: &Wire, reader: &mut Reader, case: &Case) -> Then {
        let sum: u32 = self.manners.acts.iter().map(|(weight, _)| weight).sum();
        let mut pick = self.draw(|rng| rng.u32(0..sum));
        let act = self.manners.acts.iter().find(|(weight, _)| {
            let found = pick < *weight;
            pick = pick.saturating_sub(*weight);
            found
        });
        let act = act.map_or(Act::Serve, |(_, act)| *act);
        simulated::note(&format!("origin {} delivery {}: {act:?}", self.number, case.delivery));
        let leave = |reset| if reset { Then::Reset } else { Then::Close };
        match act {
            Act::Leave(Where::Body, reset) => return leave(reset),
            Act::Deaf => {
                simulated::sleep(Duration::from_secs(600)).await;
                return Then::Close;
            }
            Act::Early => {
                let then = self.answer(wire, case, act).await;
                let read = self.body(reader, case).await;
                return read.err().unwrap_or(then);
            }
            _ => {}
        }
        if case.expect && wire.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err() {
            return Then::Close;
        }
        if let Err(then) = self.body(reader, case).await {
            return then;
        }
        match act {
            Act::Leave(Where::Silence, reset) => leave(reset),
            Act::Silent => {
                // Waits until the gateway closes the connection.
                let _ = reader.wait().await;
                Then::Close
            }
            Act::Late(time) => {
                simulated::sleep(time).await;
                self.answer(wire, case, act).await
            }
            Act::Garbage => {
                let noise = self.draw(|rng| {
                    let length = rng.usize(1..200);
                    (0..length).map(|_| rng.u8(..)).collect::<Vec<_>>()
                });
                let _ = wire.write(&noise).await;
                leave(self.draw(Rng::bool))
            }
            _ => {
                simulated::sleep(self.within(self.manners.slowest)).await;
                self.answer(wire, case, act).await
            }
        }
    }

    fn within(&self, most: Duration) -> Duration {
        Duration::from_micros(self.draw(|rng| rng.u64(0..=most.as_micros() as u64)))
    }

    /// Generates an answer and sends it.
    async fn answer(&self, wire: &Wire, case: &Case, act: Act) -> Then {
        let status = match act {
            Act::Refuse => *self.draw(|rng| rng.choice([500u16, 502, 503].iter())).unwrap_or(&500),
            _ if case.request.is_multiple_of(17) => 204,
            _ => 200,
        };
        let bodiless = status == 204 || case.method == "HEAD";
        // An answer without a body cannot have a wrong body.
        let act = match act {
            Act::Chunks(_) | Act::TwoLengths if bodiless || case.http10 => Act::Serve,
            act => act,
        };
        let longest = self.manners.longest;
        let length = if status == 204 { 0 } else { self.draw(|rng| rng.usize(0..=longest)) };
        let lies = matches!(act, Act::TooShort | Act::TooLong | Act::Twice);
        let chunks = matches!(act, Act::Chunks(_) | Act::TwoLengths);
        let framing = match self.draw(|rng| rng.u32(0..4)) {
            _ if chunks => Framing::Chunked,
            0 if !lies && !case.http10 => Framing::Chunked,
            1 if !lies && !bodiless => Framing::Close,
            _ => Framing::Length(length),
        };
        let number = ANSWERS + case.delivery as u64;
        let id = match self.sabotage {
            Some(Sabotage::SwapAnswers) => case.request + 1,
            _ => case.request,
        };
        let mut head =
            format!("HTTP/1.1 {status} Whatever\r\nX-Id: {id}\r\nX-Delivery: {}\r\n", case.delivery);
        if act == Act::TwoLengths {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        match framing {
            _ if status == 204 => {}
            Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            Framing::Length(length) => head.push_str(&format!("Content-Length: {length}\r\n")),
            _ => {}
        }
        let close = framing == Framing::Close || case.closes || self.one_in(12);
        if close {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        if !case.http10 && self.one_in(10) {
            head.insert_str(0, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
        }
        let detectable = framing != Framing::Close || self.draw(Rng::bool);
        if framing == Framing::Close && detectable {
            wire.resets();
        }
        self.recorder.write().deliveries[case.delivery].answer = Some(Planned {
            status,
            length: match bodiless {
                true => 0,
                // None of these has an end that a client may accept.
                false if chunks => usize::MAX,
                false => length,
            },
            to_the_end: framing == Framing::Close,
            finished: false,
            detectable,
        });
        let mut said = head.into_bytes();
        let head_length = said.len();
        let body = if bodiless { Vec::new() } else { self.body_of(act, framing, number, length) };
        said.extend_from_slice(&body);
        let end = match act {
            Act::Leave(Where::Head, _) => self.draw(|rng| rng.usize(0..head_length)),
            // At least one byte is missing.
            Act::Leave(..) => head_length + self.draw(|rng| rng.usize(0..body.len().max(1))),
            _ => said.len(),
        };
        let missing = end < said.len();
        if self.say(wire, &said[..end]).await.is_err() {
            return Then::Close;
        }
        if act == Act::Twice {
            // Only if the next request is not on its way yet; otherwise this would look like its answer.
            wire.send_unsolicited(UNASKED);
        }
        match act {
            Act::Leave(_, true) => return Then::Reset,
            Act::Leave(_, false) if missing => return Then::Close,
            Act::TooShort if length / 2 < length => return Then::Close,
            Act::Chunks(_) | Act::TwoLengths => return Then::Close,
            _ => {}
        }
        if let Some(answer) = &mut self.recorder.write().deliveries[case.delivery].answer {
            answer.finished = true;
        }
        if close {
            // The last bytes arrive even if the gateway is still sending.
            wire.shutdown().await;
            let mut sink = [0; 1024];
            while wire.read(&mut sink).await.is_ok_and(|count| count > 0) {}
            return Then::Close;
        }
        Then::Next
    }

    /// Returns the bytes of an answer's body as they are sent.
    fn body_of(&self, act: Act, framing: Framing, number: u64, length: usize) -> Vec<u8> {
        let sent = match act {
            Act::TooShort => length / 2,
            Act::TooLong => length + self.draw(|rng| rng.usize(1..100)),
            _ => length,
        };
        let mut bytes = pattern::bytes(number, 0, sent);
        match self.sabotage {
            Some(Sabotage::CorruptBodies) => bytes.iter_mut().take(1).for_each(|byte| *byte ^= 1),
            Some(Sabotage::ShortBodies) if framing == Framing::Chunked => bytes.truncate(length / 2),
            _ => {}
        }
        if framing != Framing::Chunked {
            return bytes;
        }
        let mut body = Vec::new();
        let size = self.draw(|rng| rng.usize(1..=length.max(1))).max(length / 10);
        bytes.chunks(size).for_each(|data| chunk(&mut body, data));
        match act {
            Act::Chunks(Lie::Size) => return [body, b"xyz\r\n0\r\n\r\n".to_vec()].concat(),
            Act::Chunks(Lie::Huge) => return [body, b"fffffffffffffffff\r\n".to_vec()].concat(),
            Act::Chunks(Lie::Longer) => {
                // The first byte may reach the client: it is the correct one at its position.
                let one = pattern::bytes(number, length, 1);
                return [body, b"1\r\n".to_vec(), one, b"x\r\n0\r\n\r\n".to_vec()].concat();
            }
            Act::Chunks(Lie::Endless) => return body,
            _ => {}
        }
        body.extend_from_slice(b"0\r\n");
        if self.one_in(3) {
            body.extend_from_slice(b"X-Trailer: here\r\n");
        }
        body.extend_from_slice(b"\r\n");
        body
    }

    /// Sends bytes in one piece or several.
    async fn say(&self, wire: &Wire, mut bytes: &[u8]) -> io::Result<()> {
        let mut pieces = self.draw(|rng| if rng.bool() { 1 } else { rng.usize(1..5) });
        while !bytes.is_empty() {
            pieces -= 1;
            let count = if pieces == 0 { bytes.len() } else { self.draw(|rng| rng.usize(1..=bytes.len())) };
            wire.write(&bytes[..count]).await?;
            bytes = &bytes[count..];
            if !bytes.is_empty() && self.draw(Rng::bool) {
                simulated::sleep(self.within(self.manners.slowest)).await;
            }
        }
        Ok(())
    }

    /// Accepts a tunnel and echoes all bytes.
    async fn upgrade(&self, wire: &Wire, reader: &mut Reader, case: &Case) -> Then {
        if let Err(then) = self.body(reader, case).await {
            return then;
        }
        // Over HTTP/2 an answer to such a request that succeeds is the tunnel.
        if !self.has_front && self.one_in(4) {
            return self.answer(wire, case, Act::Serve).await;
        }
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-Id: {}\r\n\r\n",
            case.request
        );
        if wire.write(head.as_bytes()).await.is_err() {
            return Then::Close;
        }
        loop {
            match reader.some(4096).await {
                Ok(bytes) if bytes.is_empty() => {
                    wire.shutdown().await;
                    return Then::Close;
                }
                Ok(bytes) if wire.write(&bytes).await.is_ok() => {}
                _ => return Then::Reset,
            }
        }
    }
}
