//! Opens the sockets of a plan that is not in force yet. It runs on the thread that compiles plans, so that it may wait for a
//! disk. The sockets of documents listen only when the plan is rolled out, so no client connects to a listener of a change
//! that is refused or only tried.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, TcpListener};

use tollgate_config::file_access::run_with_timeout;
use tollgate_config::{At, ListenAddress, Problem};
use tollgate_listen::{bind, bind_datagrams, bind_shared_port, reserve};
use tollgate_net::component;
use tollgate_plan::Plan;
use tracing::error;

use super::{InheritedSockets, ListenersChange, MissingListener, OpenListener};
use crate::admin::socket::{self, ListenSocket};
use crate::startup::cannot_listen;

/// Opens sockets for the listeners of a plan.
#[derive(Debug)]
pub struct SocketOpener {
    /// The addresses that are open already, as they are written, with their actual ports.
    known: Vec<(ListenAddress, Option<u16>)>,
    /// The index in `known` of each of them, by its text.
    by_text: HashMap<String, usize>,
    /// Addresses that could not be opened before. Another failure is no reason to refuse a plan.
    missing: Vec<ListenAddress>,
    /// Ports of UDP at which sessions of closed listeners may still have sockets.
    left_ports: HashSet<u16>,
    workers: usize,
    inherited: InheritedSockets,
    opened: Vec<OpenListener>,
    /// Opens an address that this process does not have yet: `reserve` or `bind`.
    bind: fn(SocketAddr, usize) -> io::Result<Vec<TcpListener>>,
}

/// A listener that a plan needs: its address, and where that is written.
pub type WantedListener = (ListenAddress, At);

/// Returns the listeners of a plan, only one for each shared address.
pub fn wanted_listeners(plan: &Plan) -> Vec<WantedListener> {
    let mut shared = HashSet::new();
    let mut is_first = |bind: &ListenAddress| shared.insert(bind.to_string());
    let each = plan.listeners.iter().filter(|listener| !listener.by_host || is_first(&listener.bind));
    each.map(|listener| (listener.bind.clone(), listener.at)).collect()
}

/// A listener whose address cannot be opened.
#[derive(Debug)]
pub struct FailedListener {
    address: ListenAddress,
    /// Position of the address in the configuration.
    pub at: At,
    /// The reason.
    pub error: io::Error,
}

impl FailedListener {
    /// Returns the reason with its place in the configuration.
    pub fn problem(&self) -> Problem {
        Problem::error(self.at, self.error.to_string())
    }

    fn missing(&self) -> MissingListener {
        MissingListener { address: self.address.clone(), reason: self.error.to_string() }
    }
}

impl SocketOpener {
    pub(super) fn new(
        known: Vec<(ListenAddress, Option<u16>)>,
        missing: Vec<ListenAddress>,
        left_ports: HashSet<u16>,
        workers: usize,
        inherited: InheritedSockets,
    ) -> Self {
        let by_text = (0..).zip(&known).map(|(index, (address, _))| (address.to_string(), index)).collect();
        Self { known, by_text, missing, left_ports, workers, inherited, opened: Vec::new(), bind: reserve }
    }

    /// Opens the sockets of these listeners that are not open yet. Returns the listeners whose sockets cannot be opened.
    pub fn open(&mut self, wanted: &[WantedListener]) -> Vec<FailedListener> {
        let mut failed = Vec::new();
        // A free port may be written several times, for several sockets.
        let opened_before = self.opened.len();
        for (bind, at) in wanted {
            let result = match self.by_text.get(&bind.to_string()) {
                // The mode or owner of the socket's file may have changed.
                Some(&index) if self.known[index].0 != *bind => apply_ownership(bind),
                Some(_) => Ok(()),
                None if self.is_opened(bind, opened_before) => Ok(()),
                None => self.open_one(bind).map(|open| self.opened.push(open)),
            };
            if let Err(error) = result {
                failed.push(FailedListener { address: bind.clone(), at: *at, error });
            }
        }
        failed
    }

    /// Like [`open`](Self::open), for a plan with changed documents.
    ///
    /// # Errors
    /// The problems of listeners whose sockets cannot be opened, except of those that could not be opened before.
    pub fn open_documents(&mut self, wanted: &[WantedListener]) -> Result<(), Vec<Problem>> {
        let mut failed = self.open(wanted);
        failed.retain(|failed| !self.missing.iter().any(|it| it.is_same_address(&failed.address)));
        match failed.is_empty() {
            true => Ok(()),
            false => Err(failed.iter().map(FailedListener::problem).collect()),
        }
    }

    /// Opens the sockets of a plan with a new file. Listeners of documents that cannot be opened are reported and missing.
    ///
    /// # Errors
    /// A listener of the file cannot be opened.
    pub fn open_plan(mut self, wanted: &[WantedListener]) -> io::Result<ListenersChange> {
        self.bind = bind;
        for failed in self.open(wanted) {
            if !failed.at.is_in_document() {
                return Err(failed.error);
            }
            if !self.missing.iter().any(|it| it.is_same_address(&failed.address)) {
                error!(target: component::LISTENER, "a listener of a document is missing: {}", failed.error);
            }
        }
        Ok(self.finish(wanted))
    }

    /// Returns the change that leads to these listeners, and the sockets that were opened for it. Listeners that could not
    /// be opened are missing.
    pub fn finish(mut self, wanted: &[WantedListener]) -> ListenersChange {
        let failed = self.open(wanted);
        let texts: HashSet<String> = wanted.iter().map(|(bind, _)| bind.to_string()).collect();
        let opened = std::mem::take(&mut self.opened);
        let (added, unused): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|open| texts.contains(&open.configured.to_string()));
        unused.iter().filter(|open| open.created_file).for_each(OpenListener::remove_file);
        let gone = self.known.iter().filter(|(address, _)| !texts.contains(&address.to_string()));
        ListenersChange {
            added,
            removed: gone.map(|(address, _)| address.clone()).collect(),
            missing: failed.iter().map(FailedListener::missing).collect(),
        }
    }

    fn is_opened(&self, address: &ListenAddress, opened_before: usize) -> bool {
        let is_free_port = address.ip().is_some_and(|address| address.port() == 0);
        let among = if is_free_port { &self.opened[..opened_before] } else { &self.opened[..] };
        among.iter().any(|open| open.configured.is_same_address(address))
    }

    fn open_one(&mut self, configured: &ListenAddress) -> io::Result<OpenListener> {
        match configured {
            ListenAddress::Tcp(address) => self.open_tcp(*address),
            ListenAddress::Udp(address) => self.open_udp(*address),
            ListenAddress::Unix(_) => self.open_unix(configured),
        }
    }

    fn open_tcp(&mut self, configured: SocketAddr) -> io::Result<OpenListener> {
        let workers = self.workers;
        let mut sockets = self.inherited.take(&configured.into());
        if sockets.is_empty() {
            // This refuses a port on which another socket listens. On a port of this process or of its
            // predecessor that check would fail, so it is skipped.
            let port = configured.port();
            let own = port != 0 && (self.has(port, false) || self.inherited.has(port));
            sockets =
                if own { bind_shared_port(configured, workers) } else { (self.bind)(configured, workers) }
                    .map_err(|error| cannot_listen("listen", configured, &error))?;
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

    /// Opens sockets for datagrams, or takes over the inherited ones.
    fn open_udp(&mut self, configured: SocketAddr) -> io::Result<OpenListener> {
        let workers = self.workers;
        let mut sockets = self.inherited.take(&ListenAddress::Udp(configured));
        let explain = |error| cannot_listen("listen", configured, &error);
        if sockets.is_empty() {
            let port = configured.port();
            let own = port != 0 && (self.has(port, true) || self.inherited.has_other(port, true));
            let bound = match bind_datagrams(configured, workers, own) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && self.left_ports.contains(&port) => {
                    bind_datagrams(configured, workers, true)
                }
                bound => bound,
            };
            sockets = bound.map_err(explain)?;
        }
        let address = sockets[0].local_addr()?;
        if let Some(missing) = workers.checked_sub(sockets.len()).filter(|missing| *missing > 0) {
            sockets.extend(bind_datagrams(address, missing, true).map_err(explain)?);
        }
        Ok(OpenListener {
            configured: ListenAddress::Udp(configured),
            address: ListenAddress::Udp(address),
            handle: None,
            created_file: false,
            sockets,
        })
    }

    /// Returns whether this process has a socket for connections, or for datagrams, with the port.
    fn has(&self, port: u16, is_udp: bool) -> bool {
        let is_kind = |address: &ListenAddress| matches!(address, ListenAddress::Udp(_)) == is_udp;
        let opened = self.opened.iter().map(|open| &open.address).filter(|address| is_kind(address));
        self.known.iter().any(|(address, known)| is_kind(address) && *known == Some(port))
            || opened.filter_map(ListenAddress::ip).any(|address| address.port() == port)
    }

    /// Opens a Unix socket, or takes over the inherited one. All workers share it.
    fn open_unix(&mut self, configured: &ListenAddress) -> io::Result<OpenListener> {
        let mut sockets = self.inherited.take(configured);
        let created_file = sockets.is_empty();
        if created_file {
            // On another thread: the directory may be slow, and so may a process that already listens there.
            let place = configured.clone();
            let opened = with_time_limit(move || ListenSocket::open(&place, "listen"))?;
            sockets.push(TcpListener::from(opened.into_descriptor()));
        } else {
            apply_ownership(configured)?;
        }
        while sockets.len() < self.workers {
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
}

impl Drop for SocketOpener {
    /// Removes the files of sockets that were opened for a plan that is not rolled out.
    fn drop(&mut self) {
        self.opened.iter().filter(|open| open.created_file).for_each(OpenListener::remove_file);
    }
}

/// Sets the mode and owner of a socket's file.
fn apply_ownership(configured: &ListenAddress) -> io::Result<()> {
    let configured = configured.clone();
    with_time_limit(move || socket::apply_ownership(&configured))
}

fn with_time_limit<T: Send + 'static>(job: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    run_with_timeout(job).unwrap_or_else(|stalled| Err(io::Error::other(stalled.to_string())))
}

#[cfg(test)]
mod tests {
    use super::super::Listeners;
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    fn wanted(addresses: &[SocketAddr]) -> Vec<WantedListener> {
        (1..).zip(addresses).map(|(line, to)| ((*to).into(), At { line, ..At::default() })).collect()
    }

    fn change(listeners: &Listeners, workers: usize, addresses: &[SocketAddr]) -> ListenersChange {
        let mut opener = listeners.opener(workers, InheritedSockets::default());
        let wanted = wanted(addresses);
        assert!(opener.open(&wanted).is_empty(), "a port");
        opener.finish(&wanted)
    }

    #[test]
    fn kept_listeners_stay_and_the_rest_opens_or_closes() {
        let mut listeners = Listeners::default();
        listeners.open.append(&mut change(&listeners, 2, &[ANY]).added);
        let address = listeners.addresses().next().and_then(ListenAddress::tcp).expect("one");
        let other = SocketAddr::new([127, 0, 0, 2].into(), address.port());
        let both = change(&listeners, 2, &[other, ANY]);
        assert_eq!((both.added.len(), both.removed.len()), (1, 0));
        let only = change(&listeners, 2, &[other]);
        assert_eq!((only.added.len(), &*only.removed), (1, &[ANY.into()][..]));
        // A wider address on the same port belongs to this process, so it is no conflict.
        let all = SocketAddr::new([0, 0, 0, 0].into(), address.port());
        assert_eq!(change(&listeners, 2, &[all, ANY]).added.len(), 1, "beside our own");
    }

    #[test]
    fn a_listener_that_cannot_open_is_reported_at_its_position() {
        let taken = TcpListener::bind(ANY).expect("a port");
        let address = taken.local_addr().expect("an address");
        let listeners = Listeners::default();
        let mut opener = listeners.opener(1, InheritedSockets::default());
        let wanted = wanted(&[ANY, address]);
        let problems = opener.open_documents(&wanted).expect_err("in use");
        assert_eq!((problems.len(), problems[0].at.line), (1, 2));
        assert!(problems[0].message.contains("something listens there already"), "{problems:?}");
        let change = opener.finish(&wanted);
        assert_eq!((change.added.len(), change.missing.len()), (1, 1), "what could be opened is kept");
        // A listener that was missing before does not block another change; it is opened as soon as that is possible.
        let listeners = Listeners { missing: change.missing.clone(), ..Listeners::default() };
        let mut opener = listeners.opener(1, InheritedSockets::default());
        opener.open_documents(&wanted).expect("known");
        drop(taken);
        let change = opener.finish(&wanted);
        assert_eq!((change.added.len(), change.missing.len()), (2, 0));
    }

    #[test]
    fn unneeded_sockets_are_closed() {
        let path = std::env::temp_dir().join(format!("tollgate-opener-{}.sock", std::process::id()));
        let bind: ListenAddress = format!("unix:{}", path.display()).parse().expect("an address");
        let mut opener = Listeners::default().opener(2, InheritedSockets::default());
        assert!(opener.open(&[(bind.clone(), At::default())]).is_empty());
        assert!(path.exists());
        assert!(opener.finish(&[]).is_empty() && !path.exists(), "left out");
        let mut opener = Listeners::default().opener(2, InheritedSockets::default());
        assert!(opener.open(&[(bind, At::default())]).is_empty() && path.exists());
        drop(opener);
        assert!(!path.exists(), "given up");
    }

    #[test]
    fn inherited_sockets_are_all_used_and_missing_ones_made() {
        let before = bind(ANY, 2).expect("a port");
        let address = before[0].local_addr().expect("an address");
        let open = |workers: usize, sockets: &[TcpListener]| {
            let inherited = InheritedSockets {
                listen: sockets
                    .iter()
                    .map(|socket| (ANY.into(), socket.try_clone().expect("a copy")))
                    .collect(),
                admin: None,
            };
            Listeners::default().opener(workers, inherited).finish(&wanted(&[ANY]))
        };
        for (workers, sockets) in [(1, 2), (2, 2), (3, 3)] {
            let change = open(workers, &before);
            assert_eq!(change.added[0].address, address.into());
            assert_eq!(change.added[0].sockets.len(), sockets, "{workers} workers");
        }
        // A socket that does not share its address is itself shared by the workers.
        let alone = TcpListener::bind(ANY).expect("a port");
        assert_eq!(open(2, &[alone]).added[0].sockets.len(), 2);
    }
}
