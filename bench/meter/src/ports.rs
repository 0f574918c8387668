//! Chooses ports for the servers of a trial.

use crate::error::Error;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

/// The lowest port to use; below it many machines run other services.
const LOWEST: u16 = 10_000;

/// Returns the range from which the kernel takes client ports (`ip_local_port_range`); if it cannot be read,
/// the kernel's default, 32768 to 60999.
pub fn ephemeral_range() -> RangeInclusive<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    parse_range(&text).unwrap_or(32_768..=60_999)
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some(words.next()??..=words.next()??)
}

/// Returns `count` ports on which no process listens at any address, one for each server of a run.
///
/// They lie outside the range of client ports, so that no connection of the load can occupy one. A port is
/// returned again only after all others were.
///
/// # Errors
/// If there are not enough ports. If the range of client ports leaves too few, the message says how to narrow
/// it.
pub fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    free_ports_outside(&ephemeral_range(), count)
}

fn free_ports_outside(ephemeral: &RangeInclusive<u16>, count: usize) -> Result<Vec<u16>, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let room: Vec<u16> = (LOWEST..=u16::MAX).filter(|port| !ephemeral.contains(port)).collect();
    let mut found = Vec::with_capacity(count);
    for _ in 0..room.len() {
        if found.len() == count {
            break;
        }
        // Runs at the same time start at different ports.
        let at = NEXT.fetch_add(1, Ordering::Relaxed) as usize + std::process::id() as usize * 61;
        let port = room[at % room.len()];
        if is_free(port) && !found.contains(&port) {
            found.push(port);
        }
    }
    if found.len() == count {
        return Ok(found);
    }
    Err(Error::Lacking(format!(
        "{count} free ports are needed at {LOWEST} or above and outside the client ports {} to {}; only {} were \
         found. Narrow the client ports, for example with `sysctl net.ipv4.ip_local_port_range=\"32768 60999\"`",
        ephemeral.start(),
        ephemeral.end(),
        found.len()
    )))
}

/// Returns whether a server can listen on this port now, on all addresses as origins do.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_distinct_and_outside_the_client_ports() {
        let (mut ports, more) = (free_ports(3).unwrap(), free_ports(3).unwrap());
        ports.extend(more);
        assert!(ports.iter().all(|port| !ephemeral_range().contains(port)));
        let distinct: std::collections::BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!(distinct.len(), 6);
        assert!(free_ports(0).unwrap().is_empty());
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        for host in ["127.0.0.1", "127.0.0.2", "0.0.0.0"] {
            let listener = TcpListener::bind((host, 0)).unwrap();
            assert!(!is_free(listener.local_addr().unwrap().port()), "{host}");
        }
    }

    #[test]
    fn a_range_that_leaves_no_room_is_explained() {
        let error = free_ports_outside(&(1_000..=65_535), 1).unwrap_err().to_string();
        assert!(error.contains("client ports 1000 to 65535") && error.contains("sysctl"), "{error}");
        let above = free_ports_outside(&(1_000..=60_999), 2).unwrap();
        assert!(above.iter().all(|port| *port > 60_999));
    }

    #[test]
    fn ranges() {
        assert_eq!(parse_range("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!(parse_range("1"), None);
        assert_eq!(parse_range("1 99999"), None);
    }
}
