//! The process's listening sockets, and the changes that a new configuration makes to them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use tollgate_config::{Config, ListenAddress};
use tollgate_listen::{bind, bind_shared_port, listen};
use tollgate_proxy::{ListenerId, Queued, Receipt, WorkerCommand};

use crate::admin::socket::{self, Socket};
use crate::aside::aside;
use crate::startup::cannot_listen;
use crate::workers::Workers;

/// The addresses on which the workers accept connections.
#[derive(Debug, Default)]
pub struct Listeners {
    open: Vec<Open>,
    /// The number of the next listener handle. Numbers are not reused.
    doors: u32,
}

/// A listen address.
#[derive(Debug)]
struct Open {
    /// The address as it is written in the file; its port may be 0.
    written: ListenAddress,
    /// The address with its actual port.
    address: ListenAddress,
    /// The handle by which the workers know it; `None` until they accept on it.
    door: Option<ListenerId>,
    /// Whether this process created the file of the Unix socket, rather than inheriting it.
    made: bool,
    /// The sockets, which an upgrade hands to the next process. Workers have duplicates of them. For a Unix
    /// socket all entries are duplicates of one socket, from which all workers accept. It has the type of a
    /// TCP listener, since accepting from a descriptor is the same for both.
    sockets: Vec<TcpListener>,
}

/// Sockets that another process opened before this one, each with the address as it was written in that
/// process's file.
#[derive(Debug, Default)]
pub struct Inherited {
    /// The sockets of `listen`.
    pub listen: Vec<(ListenAddress, TcpListener)>,
    /// The socket of `admin`.
    pub admin: Option<(String, OwnedFd)>,
}

/// The changes that a new file makes. Added sockets are open, but no worker accepts from them yet.
#[derive(Debug)]
pub struct Change {
    added: Vec<Open>,
    removed: Vec<ListenAddress>,
}

impl Drop for Change {
    /// Removes the files of sockets that were opened for a change that is not applied.
    fn drop(&mut self) {
        self.added.iter().filter(|open| open.made).for_each(Open::remove_file);
    }
}

/// Returns the addresses that a config names.
pub fn wanted(config: &Config) -> Vec<ListenAddress> {
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
        inherited: &mut Inherited,
    ) -> io::Result<Change> {
        let mut change = Change { added: Vec::new(), removed: Vec::new() };
        for written in wanted {
            match self.open.iter().find(|open| open.written.is_same_place(written)) {
                None => change.added.push(self.open(written, workers, inherited).await?),
                // The mode or owner of the socket's file may have changed.
                Some(open) if open.written != *written => belong(written).await?,
                Some(_) => {}
            }
        }
        let is_wanted = |open: &Open| wanted.iter().any(|wanted| wanted.is_same_place(&open.written));
        let gone = self.open.iter().filter(|open| !is_wanted(open)).map(|open| open.written.clone());
        change.removed = gone.collect();
        Ok(change)
    }

    async fn open(
        &self,
        written: &ListenAddress,
        workers: usize,
        inherited: &mut Inherited,
    ) -> io::Result<Open> {
        match written {
            ListenAddress::Tcp(address) => self.open_tcp(*address, workers, inherited),
            ListenAddress::Unix(_) => open_unix(written, workers, inherited).await,
        }
    }

    fn open_tcp(&self, written: SocketAddr, workers: usize, inherited: &mut Inherited) -> io::Result<Open> {
        let explain = |error| cannot_listen("listen", written, &error);
        let mut sockets = inherited.take(&written.into());
        if sockets.is_empty() {
            // `bind` refuses a port on which another socket listens. On a port of this process or of its
            // predecessor that check would fail, so it is skipped.
            let own = written.port() != 0 && (self.has(written.port()) || inherited.has(written.port()));
            sockets = if own { bind_shared_port(written, workers) } else { bind(written, workers) }
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
        Ok(Open { written: written.into(), address: address.into(), door: None, made: false, sockets })
    }

    fn has(&self, port: u16) -> bool {
        self.open.iter().any(|open| open.address.tcp().is_some_and(|address| address.port() == port))
    }

    /// Applies a prepared change. [`tell`](Self::tell) makes the workers accept on the new addresses.
    pub fn change(&mut self, mut change: Change, workers: &Workers) {
        let (added, removed) = (std::mem::take(&mut change.added), std::mem::take(&mut change.removed));
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| removed.contains(&open.written));
        self.open = kept;
        let doors: Vec<_> = gone.iter().filter_map(|open| open.door).collect();
        if !doors.is_empty() {
            // An old and a new address may share a port, one wider than the other. Listening on the new one
            // first leaves no gap. An error here recurs in `tell`, which reports it.
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
        if !doors.is_empty() {
            workers.tell(|_| WorkerCommand::Close(doors.clone(), Queued::Accept));
        }
    }

    /// Makes the workers accept on new addresses. If an address has more sockets than there are workers, some
    /// workers get two, so that no socket is left without an acceptor.
    ///
    /// # Errors
    /// No file descriptors are left. No worker gets an address then, and the next call tries again.
    pub fn tell(&mut self, workers: &Workers, receipt: &Receipt) -> io::Result<()> {
        let mut shares: Vec<Vec<_>> = (0..workers.count()).map(|_| Vec::new()).collect();
        let new: Vec<&mut Open> = self.open.iter_mut().filter(|open| open.door.is_none()).collect();
        for (open, door) in new.iter().zip(self.doors..) {
            for (index, socket) in open.sockets.iter().enumerate() {
                let copy = socket.try_clone()?.into();
                shares[index % workers.count()].push((ListenerId(door), open.written.clone(), copy));
            }
        }
        // Only now, since a process that listened and then failed to start would reset the clients that wait
        // in its queue.
        new.iter().flat_map(|open| &open.sockets).try_for_each(listen)?;
        for open in new {
            open.door = Some(ListenerId(self.doors));
            self.doors += 1;
        }
        workers
            .tell(|worker| WorkerCommand::Listen(std::mem::take(&mut shares[worker]), Some(receipt.clone())));
        Ok(())
    }

    /// Returns the addresses with their actual ports.
    pub fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.open.iter().map(|open| &open.address)
    }

    /// Returns the addresses as they are written in the file.
    pub fn written(&self) -> impl Iterator<Item = &ListenAddress> {
        self.open.iter().map(|open| &open.written)
    }

    /// Returns every socket with its address as it is written in the file, for the process that takes over.
    pub fn sockets(&self) -> impl Iterator<Item = (&ListenAddress, &TcpListener)> {
        self.open.iter().flat_map(|open| open.sockets.iter().map(|socket| (&open.written, socket)))
    }

    /// Stops accepting on the addresses that another process has taken over. It has the same sockets, and
    /// accepts the connections that wait in their queues.
    pub fn leave(&mut self, taken: &[ListenAddress], workers: &Workers) {
        let is_taken = |open: &Open| taken.iter().any(|taken| taken.is_same_place(&open.written));
        let (taken, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open).into_iter().partition(is_taken);
        self.open = kept;
        let doors: Vec<_> = taken.iter().filter_map(|open| open.door).collect();
        workers.tell(|_| WorkerCommand::Close(doors.clone(), Queued::Leave));
    }

    /// Drops this process's sockets. The workers have the last duplicates, and close them when they have
    /// drained.
    pub fn forget(&mut self) {
        self.open.iter().for_each(Open::remove_file);
        self.open.clear();
    }
}

impl Open {
    /// Removes the file of a Unix socket, so that no client can connect to it any more.
    fn remove_file(&self) {
        if let ListenAddress::Unix(socket) = &self.written {
            socket::remove(&socket.path);
        }
    }
}

/// Sets the mode and owner of a socket's file.
async fn belong(written: &ListenAddress) -> io::Result<()> {
    let written = written.clone();
    aside(move || socket::belong(&written)).await
}

/// Opens a Unix socket, or takes over the inherited one. All workers share it.
async fn open_unix(written: &ListenAddress, workers: usize, inherited: &mut Inherited) -> io::Result<Open> {
    let mut sockets = inherited.take(written);
    let made = sockets.is_empty();
    if made {
        // On another thread: the directory may be slow, and so may a process that already listens there.
        let place = written.clone();
        let opened = aside(move || Socket::open(&place, "listen")).await?;
        sockets.push(TcpListener::from(opened.into_descriptor()));
    } else {
        belong(written).await?;
    }
    while sockets.len() < workers {
        let shared = sockets[0].try_clone()?;
        sockets.push(shared);
    }
    for socket in &sockets {
        socket.set_nonblocking(true)?;
    }
    Ok(Open { written: written.clone(), address: written.clone(), door: None, made, sockets })
}

impl Inherited {
    /// Takes the sockets of an address in `listen`, as it is written.
    fn take(&mut self, written: &ListenAddress) -> Vec<TcpListener> {
        let all = std::mem::take(&mut self.listen).into_iter();
        let (taken, kept) = all.partition(|(other, _)| other.is_same_place(written));
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
        let mut first = done(listeners.prepare(&[ANY.into()], 2, &mut Inherited::default())).expect("a port");
        listeners.open.append(&mut first.added);
        let address = listeners.addresses().next().and_then(ListenAddress::tcp).expect("one");
        let other = SocketAddr::new([127, 0, 0, 2].into(), address.port());
        let change = done(listeners.prepare(&[other.into(), ANY.into()], 2, &mut Inherited::default()))
            .expect("a port");
        assert_eq!((change.added.len(), change.removed.len()), (1, 0));
        let change = done(listeners.prepare(&[other.into()], 2, &mut Inherited::default())).expect("a port");
        assert_eq!((change.added.len(), &*change.removed), (1, &[ANY.into()][..]));
        // A wider address on the same port belongs to this process, so it is no conflict.
        let all = SocketAddr::new([0, 0, 0, 0].into(), address.port());
        done(listeners.prepare(&[all.into()], 2, &mut Inherited::default())).expect("beside our own");
    }

    #[test]
    fn one_that_cannot_be_opened_changes_nothing() {
        let taken = TcpListener::bind(ANY).expect("a port");
        let address = taken.local_addr().expect("an address");
        let listeners = Listeners::default();
        let error = done(listeners.prepare(&[ANY.into(), address.into()], 1, &mut Inherited::default()))
            .expect_err("in use");
        assert!(error.to_string().contains("something listens there already"), "{error}");
    }

    #[test]
    fn inherited_sockets_are_all_used_and_missing_ones_made() {
        let before = bind(ANY, 2).expect("a port");
        let address = before[0].local_addr().expect("an address");
        let inherited = |sockets: &[TcpListener]| Inherited {
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
