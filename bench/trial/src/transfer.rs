//! Sends a very large body through a system in both directions, checks it byte for byte, and reads the peak
//! memory.
//!
//! An origin in this process sends and receives the bytes. Every 64 KiB block carries its number, so that
//! lost, repeated and swapped blocks are found as well as changed bytes.

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::http::{connect, content_length, read_answer, read_head, status_of};
use crate::origin::{Origin, READY_BODY, READY_PATH};
use crate::target::Target;
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};
use tollgate_lab_meter::process::Memory;
use tollgate_lab_study::Settings;

/// Bytes between two block numbers.
const BLOCK: usize = 64 * 1024;

/// Timeout of each read and write.
const LIMIT: Duration = Duration::from_secs(20);

/// The result of one direction.
#[derive(Debug)]
pub(crate) struct Moved {
    /// `up` or `down`.
    pub(crate) way: &'static str,
    /// The difference between the received and the sent bytes; `None` if they are equal.
    pub(crate) problem: Option<String>,
    /// Duration in seconds.
    pub(crate) seconds: f64,
    /// Peak memory of the system since its start, in KiB.
    pub(crate) peak_kib: u64,
}

/// Uploads `bytes` bytes through a system, then downloads the same number.
///
/// # Errors
/// If the system is missing or does not start.
pub(crate) fn transfer(environment: &Environment, arm: &Arm, bytes: u64) -> Result<Vec<Moved>, Failure> {
    let features = vec!["forwarded_headers".to_owned(), "streaming".to_owned()];
    let settings = arm.settings(&Settings { features: Some(features), ..Settings::default() });
    let listener =
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(|error| Failure::of("a port", error))?;
    let port = listener.local_addr().map_err(|error| Failure::of("a port", error))?.port();
    // The threads end with this process; the client's end reports a connection that breaks.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || while serve(&stream, bytes).is_ok_and(|more| more) {});
        }
    });
    let origin = Rc::new(RefCell::new(Origin::of_this_process(port)));
    let target = Target::start(environment, arm, &settings, Some(origin), 64)?;
    let one = |way: &'static str, run: fn(u16, u64) -> io::Result<Option<String>>| {
        let started = Instant::now();
        let problem = run(target.port, bytes).unwrap_or_else(|error| Some(error.to_string()));
        let memory = target.ids().into_iter().map(Memory::read);
        Moved {
            way,
            problem,
            seconds: started.elapsed().as_secs_f64(),
            peak_kib: memory.map(|memory| memory.peak_kib).sum(),
        }
    };
    Ok(vec![one("up", upload), one("down", download)])
}

/// Returns the bytes of block `index`: a fixed pattern that begins with the block's number.
fn block(index: u64) -> Vec<u8> {
    // The period 251 is prime, so no power-of-two shift maps the pattern onto itself.
    let mut bytes: Vec<u8> = (0..BLOCK).map(|at| (at % 251) as u8).collect();
    stamp(&mut bytes, index);
    bytes
}

fn stamp(bytes: &mut [u8], index: u64) {
    bytes[..8].copy_from_slice(&index.to_be_bytes());
}

/// Writes `size` bytes of the pattern.
fn send(into: &mut impl Write, size: u64) -> io::Result<()> {
    let mut bytes = block(0);
    for index in 0..size.div_ceil(BLOCK as u64) {
        stamp(&mut bytes, index);
        let left = size - index * BLOCK as u64;
        into.write_all(&bytes[..BLOCK.min(usize::try_from(left).unwrap_or(BLOCK))])?;
    }
    into.flush()
}

/// Reads `size` bytes. Returns the first block that differs from the pattern.
fn check(from: &mut impl Read, size: u64) -> io::Result<Option<u64>> {
    let mut expected = block(0);
    let mut got = vec![0u8; BLOCK];
    let mut different = None;
    for index in 0..size.div_ceil(BLOCK as u64) {
        stamp(&mut expected, index);
        let left = size - index * BLOCK as u64;
        let length = BLOCK.min(usize::try_from(left).unwrap_or(BLOCK));
        from.read_exact(&mut got[..length])?;
        if different.is_none() && got[..length] != expected[..length] {
            different = Some(index);
        }
    }
    Ok(different)
}

/// Answers one request: the readiness check, a download of `size` bytes, or an upload (with the result of its
/// check). Returns whether another request may follow.
fn serve(mut stream: &TcpStream, size: u64) -> io::Result<bool> {
    stream.set_nodelay(true)?;
    let (head, rest) = read_head(&mut stream)?;
    let length = content_length(&head).unwrap_or(0);
    let target = head.split(' ').nth(1).unwrap_or_default();
    let text = if head.starts_with("POST ") {
        let different = check(&mut rest.as_slice().chain(stream), length)?;
        different.map_or_else(|| format!("exact {length}"), |at| format!("block {at} differs"))
    } else if target == READY_PATH {
        String::from_utf8_lossy(READY_BODY).into_owned()
    } else {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")?;
        send(&mut stream, size)?;
        return Ok(true);
    };
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())?;
    Ok(true)
}

/// Uploads the pattern. Returns what is wrong with the bytes that arrived.
fn upload(port: u16, size: u64) -> io::Result<Option<String>> {
    let mut stream = connect(port, LIMIT)?;
    write!(stream, "POST /upload HTTP/1.1\r\nHost: bench.example\r\nContent-Length: {size}\r\n\r\n")?;
    send(&mut stream, size)?;
    let answer = read_answer(&mut stream)?;
    let report = String::from_utf8_lossy(&answer.body).into_owned();
    let exact = answer.status == 200 && report == format!("exact {size}");
    Ok((!exact).then(|| format!("status {}: {report}", answer.status)))
}

/// Downloads the pattern. Returns what is wrong with the bytes that arrived.
fn download(port: u16, size: u64) -> io::Result<Option<String>> {
    let mut stream = connect(port, LIMIT)?;
    write!(stream, "GET /download HTTP/1.1\r\nHost: bench.example\r\n\r\n")?;
    let (head, rest) = read_head(&mut stream)?;
    if status_of(&head) != Some(200) || content_length(&head) != Some(size) {
        return Ok(Some(format!("answered {}", head.lines().next().unwrap_or_default())));
    }
    let different = check(&mut rest.as_slice().chain(stream), size)?;
    Ok(different.map(|at| format!("block {at} differs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE_AND_A_BIT: u64 = 3 * BLOCK as u64 + 17;

    fn pattern() -> Vec<u8> {
        let mut bytes = Vec::new();
        send(&mut bytes, THREE_AND_A_BIT).unwrap();
        bytes
    }

    #[test]
    fn what_is_sent_is_found_exact() {
        let bytes = pattern();
        assert_eq!(bytes.len() as u64, THREE_AND_A_BIT);
        assert_eq!(check(&mut bytes.as_slice(), THREE_AND_A_BIT).unwrap(), None);
    }

    #[test]
    fn a_changed_byte_swapped_blocks_and_a_short_body_are_found() {
        let mut changed = pattern();
        changed[BLOCK + 9] ^= 1;
        assert_eq!(check(&mut changed.as_slice(), THREE_AND_A_BIT).unwrap(), Some(1));
        let mut swapped = pattern();
        swapped[BLOCK..3 * BLOCK].rotate_left(BLOCK);
        assert_eq!(check(&mut swapped.as_slice(), THREE_AND_A_BIT).unwrap(), Some(1));
        let short = &pattern()[..BLOCK];
        assert!(check(&mut &short[..], THREE_AND_A_BIT).is_err());
    }
}
