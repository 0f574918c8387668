//! A DNS server over UDP whose records a test can change at any time.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// An error response (RFC 1035, 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DnsError {
    /// The server failed (SERVFAIL).
    ServerFailure = 2,
    /// The name does not exist (NXDOMAIN).
    NoSuchName = 3,
}

/// One record, with a time to live of one second.
#[derive(Clone, Debug)]
pub enum DnsRecord {
    /// An A record.
    Address(Ipv4Addr),
    /// A CNAME record.
    Alias(String),
    /// An SRV record: the port and the target.
    Service(u16, String),
}

/// The server's answer for a name.
#[derive(Clone, Debug)]
pub enum DnsSays {
    /// A records.
    Addresses {
        /// Time to live in seconds.
        ttl: u32,
        /// The addresses.
        addresses: Vec<Ipv4Addr>,
    },
    /// SRV records. Each target is a name under `.ip.test` that encodes an address, such as
    /// `127-0-0-1.ip.test`.
    Services {
        /// Time to live in seconds.
        ttl: u32,
        /// Priority, weight, and address of each service.
        services: Vec<(u16, u16, SocketAddr)>,
    },
    /// Records of any names, whatever the question was.
    Mixed {
        /// The answer section: each record with its owner name.
        answers: Vec<(String, DnsRecord)>,
        /// The additional section.
        along: Vec<(String, DnsRecord)>,
    },
    /// An error response.
    Error(DnsError),
    /// No answer at all, as from a dead server.
    Silence,
}

/// A DNS server of one test.
#[derive(Debug)]
pub struct Dns {
    address: SocketAddr,
    zone: Arc<Mutex<HashMap<String, DnsSays>>>,
    asked: Arc<AtomicUsize>,
}

const A: u16 = 1;
const SRV: u16 = 33;

impl Dns {
    /// Starts a server that knows no name.
    ///
    /// # Panics
    /// Panics if no socket can be bound.
    #[must_use]
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = socket.local_addr().expect("bound");
        let zone: Arc<Mutex<HashMap<String, DnsSays>>> = Arc::default();
        let asked = Arc::new(AtomicUsize::new(0));
        let (known, count) = (Arc::clone(&zone), Arc::clone(&asked));
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
                let Some((name, kind, end)) = question(&buffer[..length]) else { continue };
                count.fetch_add(1, Ordering::SeqCst);
                let says = known.lock().expect("zone").get(&name).cloned().or_else(|| address_name(&name));
                let says = says.unwrap_or(DnsSays::Error(DnsError::NoSuchName));
                if let Some(answer) = answer(&buffer[..end], kind, &says) {
                    let _ = socket.send_to(&answer, peer);
                }
            }
        });
        Self { address, zone, asked }
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the answer for a name (lower case, without a final dot) from now on.
    ///
    /// # Panics
    /// Panics if the server's thread died.
    pub fn say(&self, name: &str, says: DnsSays) {
        self.zone.lock().expect("zone").insert(name.to_owned(), says);
    }

    /// Sets the A records of a name from now on.
    pub fn say_addresses(&self, name: &str, ttl: u32, addresses: &[Ipv4Addr]) {
        self.say(name, DnsSays::Addresses { ttl, addresses: addresses.to_vec() });
    }

    /// Returns how many questions the server received.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Returns the name and type in the question, and the offset at which the question ends.
fn question(message: &[u8]) -> Option<(String, u16, usize)> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(message.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
    Some((labels.join("."), kind, at + 4))
}

/// Returns the A record for a name of the form `127-0-0-1.ip.test`.
fn address_name(name: &str) -> Option<DnsSays> {
    let address = name.strip_suffix(".ip.test")?.replace('-', ".").parse().ok()?;
    Some(DnsSays::Addresses { ttl: 60, addresses: vec![address] })
}

fn answer(question: &[u8], kind: u16, says: &DnsSays) -> Option<Vec<u8>> {
    let mut records: Vec<(u16, u32, Vec<u8>)> = Vec::new();
    let mut code = 0;
    if let DnsSays::Mixed { answers, along } = says {
        return Some(mixed(question, kind, answers, along));
    }
    match says {
        DnsSays::Silence => return None,
        DnsSays::Error(error) => code = *error as u8,
        DnsSays::Addresses { ttl, addresses } if kind == A => {
            records.extend(addresses.iter().map(|address| (A, *ttl, address.octets().to_vec())));
        }
        DnsSays::Services { ttl, services } if kind == SRV => {
            records.extend(services.iter().map(|service| (SRV, *ttl, service_data(*service))));
        }
        // The name exists, but it has no records of this type: an answer without records.
        DnsSays::Addresses { .. } | DnsSays::Services { .. } | DnsSays::Mixed { .. } => {}
    }
    let mut message = question.to_vec();
    // A response with recursion available. The id and the recursion-desired flag are the question's.
    message[2] = 0x80 | (question[2] & 0x01);
    message[3] = 0x80 | code;
    let count = u16::try_from(records.len()).ok()?.to_be_bytes();
    message[4..12].copy_from_slice(&[0, 1, count[0], count[1], 0, 0, 0, 0]);
    for (kind, ttl, data) in records {
        // The name is the question's: a pointer to byte 12.
        message.extend([0xc0, 12]);
        message.extend(kind.to_be_bytes());
        message.extend(1_u16.to_be_bytes());
        message.extend(ttl.to_be_bytes());
        message.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        message.extend(data);
    }
    Some(message)
}

/// Builds an answer from those of `answers` that fit the question's type; CNAME records always fit.
fn mixed(
    question: &[u8],
    kind: u16,
    answers: &[(String, DnsRecord)],
    along: &[(String, DnsRecord)],
) -> Vec<u8> {
    const CNAME: u16 = 5;
    let is_for = |record: &DnsRecord| match record {
        DnsRecord::Address(_) => kind == A,
        DnsRecord::Alias(_) => true,
        DnsRecord::Service(..) => kind == SRV,
    };
    let answers: Vec<_> = answers.iter().filter(|(_, record)| is_for(record)).collect();
    let mut message = question.to_vec();
    message[2] = 0x80 | (question[2] & 0x01);
    message[3] = 0x80;
    let counts = [answers.len(), along.len()].map(|count| u8::try_from(count).expect("few"));
    message[4..12].copy_from_slice(&[0, 1, 0, counts[0], 0, 0, 0, counts[1]]);
    for (name, record) in answers.into_iter().chain(along) {
        let (kind, data) = match record {
            DnsRecord::Address(address) => (A, address.octets().to_vec()),
            DnsRecord::Alias(target) => (CNAME, labels(target)),
            DnsRecord::Service(port, target) => {
                let mut data = vec![0, 0, 0, 1];
                data.extend(port.to_be_bytes());
                data.extend(labels(target));
                (SRV, data)
            }
        };
        message.extend(labels(name));
        message.extend(kind.to_be_bytes());
        message.extend(1_u16.to_be_bytes());
        message.extend(1_u32.to_be_bytes());
        message.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
        message.extend(data);
    }
    message
}

/// Encodes a name in wire format.
fn labels(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.trim_end_matches('.').split('.') {
        out.push(u8::try_from(label.len()).expect("a short label"));
        out.extend(label.as_bytes());
    }
    out.push(0);
    out
}

fn service_data((priority, weight, target): (u16, u16, SocketAddr)) -> Vec<u8> {
    let mut data = Vec::new();
    for number in [priority, weight, target.port()] {
        data.extend(number.to_be_bytes());
    }
    let host = target.ip().to_string().replace('.', "-");
    for label in [host.as_str(), "ip", "test"] {
        data.push(u8::try_from(label.len()).expect("a short label"));
        data.extend(label.as_bytes());
    }
    data.push(0);
    data
}
