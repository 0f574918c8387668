//! A very large body through a target, both ways, checked byte for byte.
//!
//! The bytes come from, and go to, a small origin of the bench's own. Every 64 KiB block carries its number, so
//! that lost, repeated and swapped blocks are found, not only changed bytes.

use crate::configs::Terms;
use crate::failure::Failure;
use crate::http::{connect, content_length, read_answer, read_head, status_of};
use crate::meter;
use crate::result::Transfer;
use crate::target::{Ground, System, start};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes in each direction: 1 GiB.
pub const SIZE: u64 = 1 << 30;

/// Bytes between two block numbers.
const BLOCK: usize = 64 * 1024;

/// No read or write of a transfer may take longer.
const LIMIT: Duration = Duration::from_secs(20);

/// Bytes of block `index`: a fixed pattern that begins with the block's number.
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

/// Reads `size` bytes and says where, in which block, they first differ from the pattern.
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

/// Serves `GET /` (`ok`), `GET /forwarded`, `GET /download` ([`SIZE`] bytes) and `POST` (answers what it found) on a
/// port of 127.0.0.1, a thread a connection, until the program ends.
pub fn serve_origin(port: u16) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port))
        .map_err(|error| Failure::System(format!("port {port} for the transfer origin"), error))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that breaks is the trial's to notice, at the client's end.
            thread::spawn(move || while serve_one(&stream).is_ok_and(|more| more) {});
        }
    });
    Ok(())
}

fn serve_one(mut stream: &TcpStream) -> io::Result<bool> {
    stream.set_nodelay(true)?;
    let (head, rest) = read_head(&mut stream)?;
    let length = content_length(&head).unwrap_or(0);
    let target = head.split(' ').nth(1).unwrap_or_default();
    let text = if head.starts_with("POST ") {
        let different = check(&mut rest.as_slice().chain(stream), length)?;
        different.map_or_else(|| format!("exact {length}"), |at| format!("block {at} differs"))
    } else if target == "/download" {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n")?;
        send(&mut stream, SIZE)?;
        return Ok(true);
    } else if target == "/forwarded" {
        let value = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map_or("", |(_, value)| value.trim())
        };
        ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"].map(value).join(" ")
    } else {
        "ok".into()
    };
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())?;
    Ok(true)
}

/// Sends the large body through a target, then fetches it; two results, or one that says why there are none.
pub fn run(ground: &Ground, system: System) -> Vec<Transfer> {
    let terms = Terms { clients: 64, streaming: true, ..Terms::default() };
    let running = match start(ground, system, &terms, ground.transfer_port()) {
        Ok(running) => running,
        Err(failure) => {
            let problem = Some(failure.to_string());
            return vec![Transfer { name: system.name(), problem, ..Transfer::default() }];
        }
    };
    let one = |direction: &'static str, trial: fn(u16) -> io::Result<Option<String>>| {
        meter::reset_peak(running.id());
        let began = Instant::now();
        let problem = trial(running.port).unwrap_or_else(|error| Some(error.to_string()));
        Transfer {
            name: system.name(),
            direction,
            problem,
            bytes: SIZE,
            peak: meter::memory(running.id()).peak,
            seconds: began.elapsed().as_secs_f64(),
        }
    };
    vec![one("upload", upload), one("download", download)]
}

/// Uploads the pattern; says what is wrong with what arrived.
fn upload(port: u16) -> io::Result<Option<String>> {
    let mut stream = connect(port, LIMIT)?;
    write!(stream, "POST /upload HTTP/1.1\r\nHost: bench.example\r\nContent-Length: {SIZE}\r\n\r\n")?;
    send(&mut stream, SIZE)?;
    let answer = read_answer(&mut stream)?;
    let said = String::from_utf8_lossy(&answer.body).into_owned();
    let exact = answer.status == 200 && said == format!("exact {SIZE}");
    Ok((!exact).then(|| format!("status {}: {said}", answer.status)))
}

/// Downloads the pattern; says what is wrong with what arrived.
fn download(port: u16) -> io::Result<Option<String>> {
    let mut stream = connect(port, LIMIT)?;
    write!(stream, "GET /download HTTP/1.1\r\nHost: bench.example\r\n\r\n")?;
    let (head, rest) = read_head(&mut stream)?;
    if status_of(&head) != Some(200) || content_length(&head) != Some(SIZE) {
        return Ok(Some(format!("answered {}", head.lines().next().unwrap_or_default())));
    }
    let different = check(&mut rest.as_slice().chain(stream), SIZE)?;
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
