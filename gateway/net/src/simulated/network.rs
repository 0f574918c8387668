//! Listening sockets, and the establishment of connections. A connection costs a SYN event and an answer
//! event, each after the network's delay, as long as a listener's queue has room.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use super::connection::{ConnectionEnd, SimulatedConnection};
use super::port::{AcceptQueue, Port};
use super::socket::SimulatedSocket;
use super::world::{SimulatedEvent, World, with};

/// How long the kernel tries to connect to a host that does not answer (tcp(7), `tcp_syn_retries`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(127);

/// Connects from the default local address, 10.0.0.1.
pub(crate) async fn connect(to: SocketAddr) -> io::Result<SimulatedSocket> {
    let local = with(|world| {
        world.next_port = world.next_port.checked_add(1).unwrap_or(20_000);
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), world.next_port)
    });
    connect_from(local, to).await
}

/// Returns the addresses of a name, in order.
pub(crate) fn look_up(host: &str) -> Vec<IpAddr> {
    with(|world| world.names.get(host).cloned().unwrap_or_default())
}

pub(super) async fn connect_from(local: SocketAddr, to: SocketAddr) -> io::Result<SimulatedSocket> {
    // The socket exists from here on: dropping this future, after a timeout for example, closes it.
    let socket = with(|world| world.open(local, to));
    poll_fn(|cx| {
        with(|world| {
            let (connection, _) = socket.index();
            match world.connections[connection].answer {
                Some(answer) => Poll::Ready(answer.map_err(io::Error::from)),
                None => {
                    world.await_answer(connection, cx);
                    Poll::Pending
                }
            }
        })
    })
    .await?;
    Ok(socket)
}

impl World {
    /// Sends the first packet.
    fn open(&mut self, local: SocketAddr, to: SocketAddr) -> SimulatedSocket {
        let connection = self.connections.len();
        let conditions = self.conditions.clone();
        let least = conditions.delay.0;
        let most = self.random.u64(least..=conditions.delay.1.max(least));
        let mut capacity = || self.random.usize(conditions.capacity.0..=conditions.capacity.1);
        let (here, there) = (capacity(), capacity());
        let ends =
            [ConnectionEnd::new(local, self.tasks.current(), here), ConnectionEnd::new(to, None, there)];
        self.connections.push(SimulatedConnection { ends, delay: (least, most), answer: None });
        self.record("connect", &[connection as u64, u64::from(to.port())]);
        self.meter.opened(to, self.now);
        let delayed_addresses =
            [local, to].iter().filter_map(|address| self.delayed_addresses.get(&address.ip())).max().copied();
        let delay = self.between((least, most));
        let arrival = self.now.max(delayed_addresses.unwrap_or_default()) + delay;
        self.schedule(arrival, SimulatedEvent::Syn(connection, to));
        self.schedule(
            self.now + CONNECT_TIMEOUT,
            SimulatedEvent::Answer(connection, Err(ErrorKind::TimedOut)),
        );
        SimulatedSocket::new(connection, 0)
    }

    fn await_answer(&mut self, connection: usize, cx: &Context<'_>) {
        self.connections[connection].ends[0].wait_for_answer(cx.waker());
    }

    pub fn syn(&mut self, connection: usize, to: SocketAddr) {
        if self.connections[connection].ends[0].closed {
            return;
        }
        let delay = self.connections[connection].delay;
        let later = self.now + self.between(delay);
        let open: Vec<usize> = match self.ports.get(&to) {
            None => Vec::new(),
            Some(port) => {
                (0..port.listeners.len()).filter(|index| port.listeners[*index].is_some()).collect()
            }
        };
        let Some(index) = self.random.choice(open) else {
            self.schedule(later, SimulatedEvent::Answer(connection, Err(ErrorKind::ConnectionRefused)));
            return;
        };
        let port = self.ports.get_mut(&to).and_then(|port| port.listeners[index].as_mut());
        let Some(queue) = port else { return };
        if queue.waiting.len() >= queue.backlog {
            // Dropped. The client retries with growing delays (1 s first, RFC 6298, 2).
            let again = self.now + Duration::from_secs(1);
            self.schedule(again, SimulatedEvent::Syn(connection, to));
            return;
        }
        queue.waiting.push_back(connection);
        let (owner, waker) = (queue.owner, queue.waker.take());
        self.connections[connection].ends[1].owner = Some(owner);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.schedule(later, SimulatedEvent::Answer(connection, Ok(())));
    }

    pub fn answer(&mut self, connection: usize, answer: Result<(), ErrorKind>) {
        let connection = &mut self.connections[connection];
        if connection.answer.is_none() {
            connection.answer = Some(answer);
            connection.ends[0].answered(answer.is_ok());
        }
    }

    pub fn listen(&mut self, address: SocketAddr, backlog: usize) -> usize {
        let owner = self.tasks.current().expect("a task listens");
        let port = self.ports.entry(address).or_default();
        port.listeners.push(Some(AcceptQueue { owner, backlog, waiting: VecDeque::new(), waker: None }));
        self.record("listen", &[u64::from(address.port())]);
        port_index(self.ports.get(&address))
    }

    pub fn accept(&mut self, address: SocketAddr, index: usize) -> Option<(SimulatedSocket, SocketAddr)> {
        let queue = self.ports.get_mut(&address)?.listeners.get_mut(index)?.as_mut()?;
        let connection = queue.waiting.pop_front()?;
        let peer = self.connections[connection].ends[0].address?;
        self.record("accept", &[connection as u64, index as u64]);
        Some((SimulatedSocket::new(connection, 1), peer))
    }

    pub fn await_connection(&mut self, address: SocketAddr, index: usize, cx: &Context<'_>) {
        let port = self.ports.get_mut(&address).and_then(|port| port.listeners[index].as_mut());
        if let Some(queue) = port {
            queue.waker = Some(cx.waker().clone());
        }
    }

    /// Makes the group of the current task the owner of a listener.
    pub fn adopt(&mut self, address: SocketAddr, index: usize) {
        let owner = self.tasks.current();
        let port = self.ports.get_mut(&address).and_then(|port| port.listeners[index].as_mut());
        if let (Some(queue), Some(owner)) = (port, owner) {
            queue.owner = owner;
        }
    }

    /// Closes a listening socket. The kernel resets the connections in its queue.
    pub fn stop_listening(&mut self, address: SocketAddr, index: usize) {
        self.record("stop listening", &[u64::from(address.port()), index as u64]);
        let queue = self.ports.get_mut(&address).and_then(|port| port.listeners[index].take());
        for connection in queue.into_iter().flat_map(|queue| queue.waiting) {
            self.reset_on_close((connection, 1));
            self.close((connection, 1));
        }
    }
}

fn port_index(port: Option<&Port>) -> usize {
    port.map_or(0, |port| port.listeners.len() - 1)
}
