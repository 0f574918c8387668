//! A minimal HTTP/1.1 client for checks and memory trials, which hold connections open or count bytes, and [`get`] for
//! everything else. The load itself comes from the generators.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response that was read completely.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The body, as long as `Content-Length` says.
    pub(crate) body: Vec<u8>,
}

/// Longest accepted head, in bytes; real heads here have a few hundred bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Gets a page in plain text on a connection of its own. No status is an error, and no redirection is followed.
///
/// # Errors
/// If there is no complete answer after `limit`, or its body has more than `most` bytes.
pub(crate) fn get(
    url: &str,
    query: &[(&str, &str)],
    limit: Duration,
    most: u64,
) -> Result<Answer, ureq::Error> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(limit))
        .max_redirects(0)
        .http_status_as_error(false)
        .proxy(None)
        .max_idle_connections(0)
        .build();
    let mut answer = config.new_agent().get(url).query_pairs(query.iter().copied()).call()?;
    let body = answer.body_mut().with_config().limit(most).read_to_vec()?;
    Ok(Answer { status: answer.status().as_u16(), body })
}

/// Sends one request to a port on 127.0.0.1, on a connection of its own. Returns the response including its head.
pub(crate) fn get_raw(port: u16, path: &str) -> io::Result<Vec<u8>> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(1 << 20).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Connects to a port on 127.0.0.1, with `limit` as the timeout of the connect and of every read and write.
pub(crate) fn connect(port: u16, limit: Duration) -> io::Result<TcpStream> {
    connect_to(SocketAddr::from(([127, 0, 0, 1], port)), limit)
}

/// Connects to an address, with timeouts as [`connect`].
pub(crate) fn connect_to(to: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a GET request on a keep-alive connection.
pub(crate) fn ask(stream: &mut impl Write, path: &str) -> io::Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: bench.example\r\n\r\n");
    stream.write_all(request.as_bytes())
}

/// Reads one response, which must have `Content-Length`.
pub(crate) fn read_answer(stream: &mut impl Read) -> io::Result<Answer> {
    let (head, mut body) = read_head(stream)?;
    let status = status_of(&head).ok_or_else(|| invalid("no status line"))?;
    let length = content_length(&head).ok_or_else(|| invalid("an answer without Content-Length"))?;
    let have = body.len();
    if have > length as usize {
        return Err(invalid("more bytes than Content-Length says"));
    }
    body.resize(length as usize, 0);
    stream.read_exact(&mut body[have..])?;
    Ok(Answer { status, body })
}

/// Reads up to the empty line. Returns the head and the bytes that were read after it.
pub(crate) fn read_head(stream: &mut impl Read) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0u8; 4_096];
    loop {
        let got = stream.read(&mut chunk)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let from = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(&chunk[..got]);
        if let Some(at) = bytes[from..].windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(from + at + 4);
            return String::from_utf8(bytes)
                .map(|head| (head, rest))
                .map_err(|_| invalid("a head that is not text"));
        }
        if bytes.len() > MAX_HEAD {
            return Err(invalid("a head without end"));
        }
    }
}

/// Returns the status code of a response head.
pub(crate) fn status_of(head: &str) -> Option<u16> {
    head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

pub(crate) fn content_length(head: &str) -> Option<u64> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns at most this number of bytes per call.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn an_answer_is_read_however_it_is_split() {
        let bytes = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\nhello";
        for step in 1..bytes.len() {
            let answer = read_answer(&mut Drip(bytes, step)).unwrap();
            assert_eq!(answer, Answer { status: 200, body: b"hello".to_vec() });
        }
    }

    #[test]
    fn a_page_is_got_however_it_is_framed() {
        for (framing, expected) in [
            ("1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Some(200)),
            // As Envoy answers.
            ("1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", Some(200)),
            ("1.0 404 No\r\n\r\nhello", Some(404)),
            ("1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", None),
            ("1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello you", None),
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/page", listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let (head, _) = read_head(&mut stream).unwrap();
                write!(stream, "HTTP/{framing}").unwrap();
                head
            });
            let got = get(&url, &[("q", "a b")], Duration::from_secs(5), 8);
            let got = got.ok().map(|answer| (answer.status, String::from_utf8(answer.body).unwrap()));
            assert_eq!(got, expected.map(|status| (status, "hello".to_owned())), "{framing}");
            assert!(server.join().unwrap().starts_with("GET /page?q=a%20b HTTP/1.1\r\n"));
        }
    }

    #[test]
    fn a_cut_or_boundless_answer_is_an_error() {
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
        assert_eq!(read_answer(&mut &cut[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let boundless = b"HTTP/1.1 200 OK\r\n\r\nhello";
        assert_eq!(read_answer(&mut &boundless[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let long = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello";
        assert_eq!(read_answer(&mut &long[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
