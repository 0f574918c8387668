//! The responses, serialized before the first request. Each thread has all variants of a response ready (by
//! `Connection` field and status), so that a request costs no formatting. Once a second the thread overwrites
//! the `Date` values in place. A response for which a client asks ([`Wanted`]) is serialized when it is asked for the
//! first time.

use crate::head::Wanted;
use crate::settings::Settings;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

/// Returns the body of `bytes` bytes that every origin of the laboratory sends; it is the same in every run.
pub fn body(bytes: usize) -> Vec<u8> {
    b"0123456789abcdefghijklmnopqrstuvwxyz\n".iter().copied().cycle().take(bytes).collect()
}

/// Bytes of a body that are stored after the head, so that one call sends both. The rest of a longer body is
/// stored once for all kinds of answers.
const WITH_HEAD: usize = 16 * 1024;

/// The same for a response for which a client asks. There may be many of them.
const WITH_WANTED_HEAD: usize = 1024;

/// The most different responses for which clients may ask; at [`WITH_WANTED_HEAD`] bytes each, some 80 MB.
const MOST_WANTED: usize = 65_536;

/// The `Connection` field of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Persistence {
    /// No field: HTTP/1.1 keeps the connection by default.
    Kept,
    /// `keep-alive`, for a client of HTTP/1.0 that asked for it.
    KeptOnDemand,
    /// `close`.
    Closed,
}

/// A response to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The response of the settings. The second field is `true` for `HEAD`, which gets no body.
    Usual(Persistence, bool),
    /// A response for which a client asked: its place, and `true` for `HEAD`.
    Wanted(u32, bool),
    /// The response to the ready path.
    Ready(Persistence),
    /// `100 Continue`: the client may send the body (RFC 9110, section 10.1.1).
    Continue,
    /// The request is not HTTP/1.
    Malformed,
    /// The head of the request is too long.
    HeadTooLong,
}

#[derive(Debug)]
struct Prepared {
    /// The head and the first bytes of the body.
    bytes: Vec<u8>,
    head: usize,
    /// The offset of the value of `Date`.
    date: Option<usize>,
}

/// Length of a date in the format of RFC 9110, section 5.6.7.
const DATE_BYTES: usize = 29;

impl Prepared {
    /// Serializes a response; the first `with` bytes of the body are stored after the head.
    fn new(status: u16, persistence: Persistence, body: &[u8], with: usize) -> Self {
        let mut text = format!("HTTP/1.1 {status} {}\r\nServer: tollgate-lab\r\nDate: ", reason(status));
        let date = text.len();
        text.extend(std::iter::repeat_n(' ', DATE_BYTES));
        text.push_str("\r\n");
        // Neither status has a body, and 204 must not have `Content-Length` (RFC 9110, section 8.6).
        if !matches!(status, 204 | 304) {
            text.push_str(&format!("Content-Type: text/plain\r\nContent-Length: {}\r\n", body.len()));
        }
        text.push_str(match persistence {
            Persistence::Kept => "\r\n",
            Persistence::KeptOnDemand => "Connection: keep-alive\r\n\r\n",
            Persistence::Closed => "Connection: close\r\n\r\n",
        });
        let head = text.len();
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&body[..body.len().min(with)]);
        Self { bytes, head, date: Some(date) }
    }

    fn set_date(&mut self, date: &str) {
        if let Some(at) = self.date {
            self.bytes[at..at + DATE_BYTES].copy_from_slice(date.as_bytes());
        }
    }
}

/// Formats a date of [`DATE_BYTES`] bytes.
fn date(second: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second))
}

/// Returns the seconds since 1970 as of the kernel's last tick: exact enough for a `Date` field, and cheaper
/// to read.
pub(crate) fn unix_seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}

/// All responses of one thread.
#[derive(Debug)]
pub(crate) struct Answers {
    usual: [Prepared; 3],
    ready: [Prepared; 3],
    goes_on: Prepared,
    malformed: Prepared,
    head_too_long: Prepared,
    body: Vec<u8>,
    /// The responses for which clients asked, each with the length of its body.
    wanted: Vec<(Prepared, usize)>,
    /// Their places.
    places: HashMap<(Wanted, Persistence), u32>,
    /// The longest of their bodies; the others are its first bytes.
    longest: Vec<u8>,
    /// The second that the dates show.
    second: u64,
}

impl Answers {
    pub(crate) fn new(settings: &Settings) -> Self {
        let all = [Persistence::Kept, Persistence::KeptOnDemand, Persistence::Closed];
        let usual = body(settings.response_bytes);
        let refusal = |status| Prepared::new(status, Persistence::Closed, b"", 0);
        Self {
            usual: all.map(|persistence| Prepared::new(settings.status, persistence, &usual, WITH_HEAD)),
            ready: all.map(|persistence| {
                Prepared::new(200, persistence, settings.ready_body.as_bytes(), WITH_HEAD)
            }),
            goes_on: Prepared { bytes: b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), head: 25, date: None },
            malformed: refusal(400),
            head_too_long: refusal(431),
            body: usual,
            wanted: Vec::new(),
            places: HashMap::new(),
            longest: Vec::new(),
            second: u64::MAX,
        }
    }

    /// Returns the response for which a client asks. `None` if too many different ones were asked for.
    pub(crate) fn wanted(
        &mut self,
        wanted: Wanted,
        persistence: Persistence,
        to_head: bool,
    ) -> Option<Answer> {
        if let Some(place) = self.places.get(&(wanted, persistence)) {
            return Some(Answer::Wanted(*place, to_head));
        }
        if self.wanted.len() >= MOST_WANTED {
            return None;
        }
        // Neither status has a body.
        let bytes = if matches!(wanted.status, 204 | 304) { 0 } else { wanted.bytes as usize };
        if self.longest.len() < bytes {
            self.longest = body(bytes);
        }
        let mut prepared =
            Prepared::new(wanted.status, persistence, &self.longest[..bytes], WITH_WANTED_HEAD);
        // Before the first date is set, there is none to copy.
        if self.second != u64::MAX {
            prepared.set_date(&date(self.second));
        }
        let place = u32::try_from(self.wanted.len()).ok()?;
        self.wanted.push((prepared, bytes));
        self.places.insert((wanted, persistence), place);
        Some(Answer::Wanted(place, to_head))
    }

    /// Writes the time into all responses if it has changed. If the kernel took a part of a response that
    /// ends within the date, the rest has the new date; length and format of the field stay the same.
    pub(crate) fn set_date(&mut self, second: u64) {
        if self.second == second {
            return;
        }
        self.second = second;
        let date = date(second);
        let refusals = [&mut self.malformed, &mut self.head_too_long];
        let wanted = self.wanted.iter_mut().map(|(prepared, _)| prepared);
        for prepared in self.usual.iter_mut().chain(&mut self.ready).chain(refusals).chain(wanted) {
            prepared.set_date(&date);
        }
    }

    fn prepared(&self, answer: Answer) -> &Prepared {
        match answer {
            Answer::Usual(persistence, _) => &self.usual[persistence as usize],
            Answer::Wanted(place, _) => &self.wanted[place as usize].0,
            Answer::Ready(persistence) => &self.ready[persistence as usize],
            Answer::Continue => &self.goes_on,
            Answer::Malformed => &self.malformed,
            Answer::HeadTooLong => &self.head_too_long,
        }
    }

    /// Returns a piece of a response from byte `from`, and whether it is the last. The piece is empty only
    /// past the end.
    pub(crate) fn piece(&self, answer: Answer, from: usize) -> (&[u8], bool) {
        let prepared = self.prepared(answer);
        if let Answer::Usual(_, true) | Answer::Wanted(_, true) = answer {
            return (&prepared.bytes[from.min(prepared.head)..prepared.head], true);
        }
        let rest = match answer {
            Answer::Usual(..) if self.body.len() > WITH_HEAD => &self.body[WITH_HEAD..],
            Answer::Wanted(place, _) => {
                let bytes = self.wanted[place as usize].1;
                &self.longest[bytes.min(WITH_WANTED_HEAD)..bytes]
            }
            _ => &[],
        };
        match prepared.bytes.get(from..) {
            Some(piece) if !piece.is_empty() => (piece, rest.is_empty()),
            _ => (rest.get(from - prepared.bytes.len()..).unwrap_or_default(), true),
        }
    }
}

/// Returns the reason phrase of a status (RFC 9110, section 15), or an empty one, which that section allows.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn answers(change: impl FnOnce(&mut Settings)) -> Answers {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut settings = Settings::new(any, any);
        change(&mut settings);
        let mut answers = Answers::new(&settings);
        answers.set_date(784_111_777);
        answers
    }

    /// Concatenates all pieces, read in steps of `step` bytes.
    fn text(answers: &Answers, answer: Answer, step: usize) -> String {
        let mut bytes = Vec::new();
        loop {
            let (piece, last) = answers.piece(answer, bytes.len());
            let taken = piece.len().min(step);
            bytes.extend_from_slice(&piece[..taken]);
            if taken == piece.len() && last {
                return String::from_utf8(bytes).unwrap();
            }
        }
    }

    #[test]
    fn an_answer_is_what_a_client_expects() {
        let answers = answers(|settings| settings.response_bytes = 3);
        let head = "HTTP/1.1 200 OK\r\nServer: tollgate-lab\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                    Content-Type: text/plain\r\nContent-Length: 3\r\n";
        let usual = |persistence, to_head| text(&answers, Answer::Usual(persistence, to_head), usize::MAX);
        assert_eq!(usual(Persistence::Kept, false), format!("{head}\r\n012"));
        assert_eq!(usual(Persistence::Kept, true), format!("{head}\r\n"));
        assert_eq!(
            usual(Persistence::KeptOnDemand, false),
            format!("{head}Connection: keep-alive\r\n\r\n012")
        );
        assert_eq!(usual(Persistence::Closed, false), format!("{head}Connection: close\r\n\r\n012"));
        let ready = text(&answers, Answer::Ready(Persistence::Closed), 1);
        assert!(ready.starts_with("HTTP/1.1 200 OK\r\n") && ready.ends_with("\r\n\r\nready"), "{ready}");
        assert_eq!(text(&answers, Answer::Continue, 7), "HTTP/1.1 100 Continue\r\n\r\n");
        assert!(text(&answers, Answer::HeadTooLong, 9).starts_with("HTTP/1.1 431 Request Header"));
    }

    #[test]
    fn pieces_make_up_the_whole_whatever_their_size() {
        for bytes in [0, 1, WITH_HEAD - 1, WITH_HEAD, WITH_HEAD + 1, 3 * WITH_HEAD] {
            let answers = answers(|settings| settings.response_bytes = bytes);
            let answer = Answer::Usual(Persistence::Kept, false);
            let whole = text(&answers, answer, usize::MAX);
            let (_, got) = whole.split_once("\r\n\r\n").unwrap();
            assert_eq!(got.as_bytes(), body(bytes));
            assert_eq!(text(&answers, answer, 4_099), whole);
        }
    }

    #[test]
    fn a_response_that_a_client_asks_for_is_kept_for_the_next_one() {
        let mut answers = answers(|settings| settings.response_bytes = 5);
        let mut ask = |status, bytes, to_head| {
            let answer = answers.wanted(Wanted { status, bytes }, Persistence::Kept, to_head).unwrap();
            (answer, text(&answers, answer, 4_099))
        };
        let (large, whole) = ask(404, 70_000, false);
        let (head, got) = whole.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 404 Not Found\r\n") && head.ends_with("Content-Length: 70000"),
            "{head}"
        );
        assert!(head.contains("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "{head}");
        assert_eq!(got.as_bytes(), body(70_000));
        let (_, whole) = ask(200, 100, false);
        assert!(whole.ends_with(&String::from_utf8(body(100)).unwrap()) && whole.len() < 400, "{whole}");
        let (_, whole) = ask(404, 70_000, true);
        assert_eq!(whole, format!("{head}\r\n\r\n"));
        assert!(ask(304, 9, false).1.ends_with("GMT\r\n\r\n"), "no body and no length");
        assert_eq!(ask(404, 70_000, false).0, large);
        assert_eq!(answers.wanted.len(), 3);
    }

    #[test]
    fn no_content_announces_none_and_an_unknown_status_has_no_phrase() {
        let answer = Answer::Usual(Persistence::Kept, false);
        let none = answers(|settings| (settings.status, settings.response_bytes) = (204, 0));
        let none = text(&none, answer, usize::MAX);
        assert!(
            none.starts_with("HTTP/1.1 204 No Content\r\n") && !none.contains("Content-Length"),
            "{none}"
        );
        let strange = answers(|settings| settings.status = 299);
        assert!(text(&strange, answer, usize::MAX).starts_with("HTTP/1.1 299 \r\n"));
    }
}
