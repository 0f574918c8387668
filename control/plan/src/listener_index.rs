//! Finds the listeners of a plan by their addresses, and by a host where several share an address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate_config::ListenAddress;
use tollgate_tls::HostTable;

/// Up to this number of listeners, comparing their addresses is cheaper than hashing one.
const LINEAR_MAX: usize = 8;

/// The numbers of a plan's listeners, by address and host.
#[derive(Debug, Default)]
pub struct ListenerIndex {
    /// The first listener of each address.
    first: Vec<(ListenAddress, usize)>,
    /// The same, if there are many.
    by_address: HashMap<AddressKey, usize>,
    /// The listeners of each address whose hosts tell them apart.
    by_host: HashMap<AddressKey, HostTable<usize>>,
}

/// A listener, as far as the index needs it.
pub(crate) struct IndexedListener<'a> {
    pub bind: &'a ListenAddress,
    pub hosts: &'a [String],
    /// Whether hosts tell the listeners of its address apart.
    pub by_host: bool,
}

/// The part of a listener's address that identifies it.
#[derive(Debug, PartialEq, Eq, Hash)]
enum AddressKey {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Unix(PathBuf),
}

impl AddressKey {
    fn new(bind: &ListenAddress) -> Self {
        match bind {
            ListenAddress::Tcp(address) => Self::Tcp(*address),
            ListenAddress::Udp(address) => Self::Udp(*address),
            ListenAddress::Unix(socket) => Self::Unix(socket.path.clone()),
        }
    }
}

impl ListenerIndex {
    pub(crate) fn new<'a>(listeners: impl Iterator<Item = IndexedListener<'a>>) -> Self {
        let mut index = Self::default();
        for (number, IndexedListener { bind, hosts, by_host }) in listeners.enumerate() {
            if let Entry::Vacant(entry) = index.by_address.entry(AddressKey::new(bind)) {
                entry.insert(number);
                index.first.push((bind.clone(), number));
            }
            if !by_host {
                continue;
            }
            let table = index.by_host.entry(AddressKey::new(bind)).or_default();
            hosts.iter().for_each(|host| table.insert(host, number));
            if hosts.is_empty() {
                table.insert_any(number);
            }
        }
        index
    }

    /// Returns the number of the first listener at an address.
    #[must_use]
    pub fn at(&self, bind: &ListenAddress) -> Option<usize> {
        if self.first.len() <= LINEAR_MAX {
            let mut first = self.first.iter();
            return first.find(|(address, _)| address.is_same_address(bind)).map(|(_, number)| *number);
        }
        self.by_address.get(&AddressKey::new(bind)).copied()
    }

    /// Returns the number of the listener for a host among listeners that share an address: the listener with the most
    /// specific name that covers the host. The host may be in any case and end in a dot.
    #[must_use]
    pub fn for_host(&self, bind: &ListenAddress, host: &[u8]) -> Option<usize> {
        self.by_host.get(&AddressKey::new(bind))?.find(host).copied()
    }
}
