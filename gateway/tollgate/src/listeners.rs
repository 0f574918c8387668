//! The process's listening sockets, and the changes that a new plan makes to them. A [`SocketOpener`] opens the sockets of
//! a plan before the plan is in force; [`Listeners`] then adopts them.

mod opener;

use std::collections::HashSet;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use tollgate_config::ListenAddress;
use tollgate_listen::listen;
use tollgate_observe::ListenerStatus;
use tollgate_proxy::{ListenerId, Queued, Receipt, WorkerCommand};

pub use self::opener::{SocketOpener, wanted_listeners};
use crate::admin::socket;
use crate::workers::WorkerThreads;

/// The addresses on which the workers accept connections.
#[derive(Debug, Default)]
pub struct Listeners {
    open: Vec<OpenListener>,
    missing: Vec<MissingListener>,
    /// Ports of UDP that were closed. Sessions may still have sockets there.
    left_ports: HashSet<u16>,
    /// The number of the next listener handle. Numbers are not reused.
    next_handle: u32,
}

/// A listen address.
#[derive(Debug)]
struct OpenListener {
    /// The address as it is written in the file; its port may be 0.
    configured: ListenAddress,
    /// The address with its actual port.
    address: ListenAddress,
    /// The handle by which the workers know it; `None` until they accept on it.
    handle: Option<ListenerId>,
    /// Whether this process created the file of the Unix socket, rather than inheriting it.
    created_file: bool,
    /// The sockets, which an upgrade hands to the next process. Workers have duplicates of them. For a Unix
    /// socket all entries are duplicates of one socket, from which all workers accept. It has the type of a
    /// TCP listener, since accepting from a descriptor is the same for both. So has one for datagrams, which the workers
    /// take for what it is.
    sockets: Vec<TcpListener>,
}

/// Sockets that another process opened before this one, each with the address as it was written in that
/// process's file.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// The sockets of `listen`.
    pub listen: Vec<(ListenAddress, TcpListener)>,
    /// The socket of `admin`.
    pub admin: Option<(String, OwnedFd)>,
}

/// A listener of a document whose address could not be opened, although the plan has it: a document never prevents a
/// start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingListener {
    /// The address.
    pub address: ListenAddress,
    /// Why it could not be opened.
    pub reason: String,
}

/// The changes that a new plan makes. Added sockets are open, but no worker accepts from them yet.
#[derive(Debug)]
pub struct ListenersChange {
    added: Vec<OpenListener>,
    removed: Vec<ListenAddress>,
    missing: Vec<MissingListener>,
}

impl ListenersChange {
    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl Drop for ListenersChange {
    /// Removes the files of sockets that were opened for a change that is not applied.
    fn drop(&mut self) {
        self.added.iter().filter(|open| open.created_file).for_each(OpenListener::remove_file);
    }
}

impl Listeners {
    /// Returns an opener for the sockets of another plan. It remains valid until the listeners change.
    pub fn opener(&self, workers: usize, inherited: InheritedSockets) -> SocketOpener {
        let open = self.open.iter();
        let known = open.map(|open| (open.configured.clone(), open.address.ip().map(|it| it.port())));
        let missing = self.missing.iter().map(|missing| missing.address.clone());
        SocketOpener::new(known.collect(), missing.collect(), self.left_ports.clone(), workers, inherited)
    }

    /// Returns the addresses of documents that could not be opened.
    pub fn missing(&self) -> &[MissingListener] {
        &self.missing
    }

    /// Applies a prepared change. [`start_accepting`](Self::start_accepting) makes the workers accept on the new addresses.
    pub fn change(&mut self, mut change: ListenersChange, workers: &WorkerThreads) {
        let (added, removed) = (std::mem::take(&mut change.added), std::mem::take(&mut change.removed));
        self.missing = std::mem::take(&mut change.missing);
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let (closed, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| removed.contains(&open.configured));
        self.open = kept;
        let left = closed.iter().filter(|open| open.is_datagrams()).filter_map(|open| open.address.ip());
        self.left_ports.extend(left.map(|address| address.port()));
        let handles: Vec<_> = closed.iter().filter_map(|open| open.handle).collect();
        if !handles.is_empty() {
            // An old and a new address may share a port, one wider than the other. Listening on the new one
            // first leaves no gap. An error here recurs in `start_accepting`, which reports it.
            let _ = added.iter().flat_map(|open| &open.sockets).try_for_each(listen);
        }
        self.open.extend(added);
        tollgate_net::set_own_addresses(self.open.iter().filter_map(|open| match &open.address {
            ListenAddress::Tcp(address) => Some(tollgate_net::Address::Socket(*address)),
            ListenAddress::Udp(_) => None,
            ListenAddress::Unix(socket) => Some(tollgate_net::Address::Unix(socket.path.clone())),
        }));
        closed.iter().for_each(|open| open.remove_file());
        // Drops this process's duplicates first; the sockets close with the workers' duplicates.
        drop(closed);
        if !handles.is_empty() {
            workers.send(|_| WorkerCommand::Close(handles.clone(), Queued::Accept));
        }
    }

    /// Makes the workers accept on new addresses. If an address has more sockets than there are workers, some
    /// workers get two, so that no socket is left without an acceptor.
    ///
    /// # Errors
    /// No file descriptors are left. No worker gets an address then, and the next call tries again.
    pub fn start_accepting(&mut self, workers: &WorkerThreads, receipt: &Receipt) -> io::Result<()> {
        if self.open.iter().all(|open| open.handle.is_some()) {
            return Ok(());
        }
        let mut shares: Vec<Vec<_>> = (0..workers.count()).map(|_| Vec::new()).collect();
        let new: Vec<&mut OpenListener> = self.open.iter_mut().filter(|open| open.handle.is_none()).collect();
        for (open, handle) in new.iter().zip(self.next_handle..) {
            for (index, socket) in open.sockets.iter().enumerate() {
                let copy = socket.try_clone()?;
                let copy = match &open.configured {
                    ListenAddress::Udp(_) => UdpSocket::from(OwnedFd::from(copy)).into(),
                    ListenAddress::Tcp(_) | ListenAddress::Unix(_) => copy.into(),
                };
                shares[index % workers.count()].push((ListenerId(handle), open.configured.clone(), copy));
            }
        }
        // Only now, since a process that listened and then failed to start would reset the clients that wait
        // in its queue.
        new.iter().flat_map(|open| &open.sockets).try_for_each(listen)?;
        for open in new {
            open.handle = Some(ListenerId(self.next_handle));
            self.next_handle += 1;
        }
        workers
            .send(|worker| WorkerCommand::Listen(std::mem::take(&mut shares[worker]), Some(receipt.clone())));
        Ok(())
    }

    /// Returns the addresses with their actual ports.
    pub fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.open.iter().map(|open| &open.address)
    }

    /// Returns every address for the status page.
    pub fn statuses(&self) -> Vec<ListenerStatus> {
        let open = self.open.iter().map(|open| ListenerStatus {
            configured: open.configured.to_string(),
            actual: Ok(open.address.to_string()),
        });
        let missing = self.missing.iter().map(|missing| ListenerStatus {
            configured: missing.address.to_string(),
            actual: Err(missing.reason.clone()),
        });
        open.chain(missing).collect()
    }

    /// Returns the addresses as they are written in the file.
    pub fn configured_addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.open.iter().map(|open| &open.configured)
    }

    /// Returns every socket with its address as it is written in the file, for the process that takes over.
    pub fn sockets(&self) -> impl Iterator<Item = (&ListenAddress, &TcpListener)> {
        self.open.iter().flat_map(|open| open.sockets.iter().map(|socket| (&open.configured, socket)))
    }

    /// Stops accepting on the addresses that another process has taken over. It has the same sockets, and
    /// accepts the connections that wait in their queues.
    pub fn stop_accepting(&mut self, taken: &[ListenAddress], workers: &WorkerThreads) {
        let is_taken =
            |open: &OpenListener| taken.iter().any(|taken| taken.is_same_address(&open.configured));
        let (taken, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open).into_iter().partition(is_taken);
        self.open = kept;
        let handles: Vec<_> = taken.iter().filter_map(|open| open.handle).collect();
        workers.send(|_| WorkerCommand::Close(handles.clone(), Queued::Leave));
    }

    /// Drops this process's sockets. The workers have the last duplicates, and close them when they have
    /// drained.
    pub fn close(&mut self) {
        self.open.iter().for_each(OpenListener::remove_file);
        self.open.clear();
    }
}

impl OpenListener {
    fn is_datagrams(&self) -> bool {
        matches!(self.configured, ListenAddress::Udp(_))
    }

    /// Removes the file of a Unix socket, so that no client can connect to it any more.
    fn remove_file(&self) {
        if let ListenAddress::Unix(socket) = &self.configured {
            socket::remove(&socket.path);
        }
    }
}

impl InheritedSockets {
    /// Takes the sockets of an address in `listen`, as it is written.
    fn take(&mut self, configured: &ListenAddress) -> Vec<TcpListener> {
        let all = std::mem::take(&mut self.listen).into_iter();
        let (taken, kept) = all.partition(|(other, _)| other.is_same_address(configured));
        self.listen = kept;
        let taken: Vec<(ListenAddress, TcpListener)> = taken;
        taken.into_iter().map(|(_, socket)| socket).collect()
    }

    fn has(&self, port: u16) -> bool {
        self.has_other(port, false)
    }

    /// Returns whether a socket for connections, or for datagrams, has the port.
    fn has_other(&self, port: u16, is_udp: bool) -> bool {
        self.listen.iter().any(|(configured, socket)| {
            matches!(configured, ListenAddress::Udp(_)) == is_udp
                && socket.local_addr().is_ok_and(|address| address.port() == port)
        })
    }
}
