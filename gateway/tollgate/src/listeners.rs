//! The process's listening sockets, and the changes that a new configuration makes to them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use tollgate_config::{Config, ListenAddress};
use tollgate_listen::{bind, bind_shared_port, listen};
use tollgate_proxy::{ListenerId, Queued, Receipt, WorkerCommand};

use crate::admin::socket::{self, ListenSocket};
use crate::blocking_files::run_file_job;
use crate::startup::cannot_listen;
use crate::workers::WorkerThreads;

/// The addresses on which the workers accept connections.
#[derive(Debug, Default)]
pub struct Listeners {
    open: Vec<OpenListener>,
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
    /// TCP listener, since accepting from a descriptor is the same for both.
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

/// The changes that a new file makes. Added sockets are open, but no worker accepts from them yet.
#[derive(Debug)]
pub struct ListenersChange {
    added: Vec<OpenListener>,
    removed: Vec<ListenAddress>,
}

impl Drop for ListenersChange {
    /// Removes the files of sockets that were opened for a change that is not applied.
    fn drop(&mut self) {
        self.added.iter().filter(|open| open.created_file).for_each(OpenListener::remove_file);
    }
}

/// Returns the addresses that a config names.
pub fn configured_addresses(config: &Config) -> Vec<ListenAddress> {
    config.listen.iter().map(|listener| listener.bind.value.clone()).collect()
}

impl Listeners {
    /// Determines the changes that lead to these addresses, and opens the new ones.
    ///
    /// # Errors
    /// An address cannot be opened. Nothing has changed then.
    pub async fn prepare(
        &self,
        wanted: &[ListenAddress],
        workers: usize,
        inherited: &mut InheritedSockets,
    ) -> io::Result<ListenersChange> {
        let mut change = ListenersChange { added: Vec::new(), removed: Vec::new() };
        for configured in wanted {
            match self.open.iter().find(|open| open.configured.is_same_address(configured)) {
                None => change.added.push(self.open(configured, workers, inherited).await?),
                // The mode or owner of the socket's file may have changed.
                Some(open) if open.configured != *configured => apply_ownership(configured).await?,
                Some(_) => {}
            }
        }
        let is_wanted =
            |open: &OpenListener| wanted.iter().any(|wanted| wanted.is_same_address(&open.configured));
        let gone = self.open.iter().filter(|open| !is_wanted(open)).map(|open| open.configured.clone());
        change.removed = gone.collect();
        Ok(change)
    }

    async fn open(
        &self,
        configured: &ListenAddress,
        workers: usize,
        inherited: &mut InheritedSockets,
    ) -> io::Result<OpenListener> {
        match configured {
            ListenAddress::Tcp(address) => self.open_tcp(*address, workers, inherited),
            ListenAddress::Unix(_) => open_unix(configured, workers, inherited).await,
        }
    }

    fn open_tcp(
        &self,
        configured: SocketAddr,
        workers: usize,
        inherited: &mut InheritedSockets,
    ) -> io::Result<OpenListener> {
        let explain = |error| cannot_listen("listen", configured, &error);
        let mut sockets = inherited.take(&configured.into());
        if sockets.is_empty() {
            // `bind` refuses a port on which another socket listens. On a port of this process or of its
            // predecessor that check would fail, so it is skipped.
            let own =
                configured.port() != 0 && (self.has(configured.port()) || inherited.has(configured.port()));
            sockets = if own { bind_shared_port(configured, workers) } else { bind(configured, workers) }
                .map_err(explain)?;
        }
        let address = sockets[0].local_addr()?;
        if let Some(missing) = workers.checked_sub(sockets.len()).filter(|missing| *missing > 0) {
            match bind_shared_port(address, missing) {
                Ok(more) => sockets.extend(more),
                // The inherited sockets do not share their address (SO_REUSEPORT), so several workers accept
                // from one of them.
                Err(_) => {
                    for index in 0..missing {
                        let shared = sockets[index].try_clone()?;
                        sockets.push(shared);
                    }
                }
            }
        }
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        Ok(OpenListener {
            configured: configured.into(),
            address: address.into(),
            handle: None,
            created_file: false,
            sockets,
        })
    }

    fn has(&self, port: u16) -> bool {
        self.open.iter().any(|open| open.address.tcp().is_some_and(|address| address.port() == port))
    }

    /// Applies a prepared change. [`start_accepting`](Self::start_accepting) makes the workers accept on the new addresses.
    pub fn change(&mut self, mut change: ListenersChange, workers: &WorkerThreads) {
        let (added, removed) = (std::mem::take(&mut change.added), std::mem::take(&mut change.removed));
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| removed.contains(&open.configured));
        self.open = kept;
        let handles: Vec<_> = gone.iter().filter_map(|open| open.handle).collect();
        if !handles.is_empty() {
            // An old and a new address may share a port, one wider than the other. Listening on the new one
            // first leaves no gap. An error here recurs in `start_accepting`, which reports it.
            let _ = added.iter().flat_map(|open| &open.sockets).try_for_each(listen);
        }
        self.open.extend(added);
        tollgate_net::set_own_addresses(self.open.iter().map(|open| match &open.address {
            ListenAddress::Tcp(address) => tollgate_net::Address::Socket(*address),
            ListenAddress::Unix(socket) => tollgate_net::Address::Unix(socket.path.clone()),
        }));
        gone.iter().for_each(|open| open.remove_file());
        // Drops this process's duplicates first; the sockets close with the workers' duplicates.
        drop(gone);
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
        let mut shares: Vec<Vec<_>> = (0..workers.count()).map(|_| Vec::new()).collect();
        let new: Vec<&mut OpenListener> = self.open.iter_mut().filter(|open| open.handle.is_none()).collect();
        for (open, handle) in new.iter().zip(self.next_handle..) {
            for (index, socket) in open.sockets.iter().enumerate() {
                let copy = socket.try_clone()?.into();
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
    /// Removes the file of a Unix socket, so that no client can connect to it any more.
    fn remove_file(&self) {
        if let ListenAddress::Unix(socket) = &self.configured {
            socket::remove(&socket.path);
        }
    }
}

/// Sets the mode and owner of a socket's file.
async fn apply_ownership(configured: &ListenAddress) -> io::Result<()> {
    let configured = configured.clone();
    run_file_job(move || socket::apply_ownership(&configured)).await
}

/// Opens a Unix socket, or takes over the inherited one. All workers share it.
async fn open_unix(
    configured: &ListenAddress,
    workers: usize,
    inherited: &mut InheritedSockets,
) -> io::Result<OpenListener> {
    let mut sockets = inherited.take(configured);
    let created_file = sockets.is_empty();
    if created_file {
        // On another thread: the directory may be slow, and so may a process that already listens there.
        let place = configured.clone();
        let opened = run_file_job(move || ListenSocket::open(&place, "listen")).await?;
        sockets.push(TcpListener::from(opened.into_descriptor()));
    } else {
        apply_ownership(configured).await?;
    }
    while sockets.len() < workers {
        let shared = sockets[0].try_clone()?;
        sockets.push(shared);
    }
    for socket in &sockets {
        socket.set_nonblocking(true)?;
    }
    Ok(OpenListener {
        configured: configured.clone(),
        address: configured.clone(),
        handle: None,
        created_file,
        sockets,
    })
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
        self.listen.iter().any(|(_, socket)| socket.local_addr().is_ok_and(|address| address.port() == port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    fn done<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
    }

    #[test]
    fn what_was_there_stays_and_the_rest_is_opened_or_closed() {
        let mut listeners = Listeners::default();
        let mut first =
            done(listeners.prepare(&[ANY.into()], 2, &mut InheritedSockets::default())).expect("a port");
        listeners.open.append(&mut first.added);
        let address = listeners.addresses().next().and_then(ListenAddress::tcp).expect("one");
        let other = SocketAddr::new([127, 0, 0, 2].into(), address.port());
        let change =
            done(listeners.prepare(&[other.into(), ANY.into()], 2, &mut InheritedSockets::default()))
                .expect("a port");
        assert_eq!((change.added.len(), change.removed.len()), (1, 0));
        let change =
            done(listeners.prepare(&[other.into()], 2, &mut InheritedSockets::default())).expect("a port");
        assert_eq!((change.added.len(), &*change.removed), (1, &[ANY.into()][..]));
        // A wider address on the same port belongs to this process, so it is no conflict.
        let all = SocketAddr::new([0, 0, 0, 0].into(), address.port());
        done(listeners.prepare(&[all.into()], 2, &mut InheritedSockets::default())).expect("beside our own");
    }

    #[test]
    fn one_that_cannot_be_opened_changes_nothing() {
        let taken = TcpListener::bind(ANY).expect("a port");
        let address = taken.local_addr().expect("an address");
        let listeners = Listeners::default();
        let error =
            done(listeners.prepare(&[ANY.into(), address.into()], 1, &mut InheritedSockets::default()))
                .expect_err("in use");
        assert!(error.to_string().contains("something listens there already"), "{error}");
    }

    #[test]
    fn inherited_sockets_are_all_used_and_missing_ones_made() {
        let before = bind(ANY, 2).expect("a port");
        let address = before[0].local_addr().expect("an address");
        let inherited = |sockets: &[TcpListener]| InheritedSockets {
            listen: sockets.iter().map(|socket| (ANY.into(), socket.try_clone().expect("a copy"))).collect(),
            admin: None,
        };
        for (workers, sockets) in [(1, 2), (2, 2), (3, 3)] {
            let change = done(Listeners::default().prepare(&[ANY.into()], workers, &mut inherited(&before)))
                .expect("open");
            assert_eq!(change.added[0].address, address.into());
            assert_eq!(change.added[0].sockets.len(), sockets, "{workers} workers");
        }
        // A socket that does not share its address is itself shared by the workers.
        let alone = TcpListener::bind(ANY).expect("a port");
        let change =
            done(Listeners::default().prepare(&[ANY.into()], 2, &mut inherited(&[alone]))).expect("open");
        assert_eq!(change.added[0].sockets.len(), 2);
    }
}
