//! A client as an exchange sees it of whose request, or response, policies want the body.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context as Task, Poll, ready};

use tollgate_http::Version;
use tollgate_http::h1::{BodyReader, Length};
use tollgate_net::Negotiated;
use tollgate_policy::Transform;

use super::decoding::Decoding;
use super::shadows::Copying;
use crate::backlog::{Backlog, Sink};
use crate::client_side::{ClientSide, ClientStream, Duplex, Unfit};

/// A client of whose request, or response, policies want the body. It is one type whichever version of HTTP the client speaks,
/// so that what carries a request is compiled once more for all of them, and not once more for each.
pub(crate) struct Policed<'a> {
    client: &'a mut dyn ClientStream,
    version: Version,
    share: Option<usize>,
    transform: Option<Box<dyn Transform>>,
    /// A part of the response as the client gets it.
    out: Vec<u8>,
    /// What another body is made by of the request's.
    decoding: Option<Decoding>,
    /// Copies of the request that wait for its body.
    copies: Vec<Copying>,
}

impl<'a> Policed<'a> {
    /// Whose request has this version.
    pub fn new(client: &'a mut dyn ClientStream, version: Version) -> Self {
        Self {
            client,
            version,
            share: None,
            transform: None,
            out: Vec::new(),
            decoding: None,
            copies: Vec::new(),
        }
    }

    /// Which of its route's upstreams it goes to, by number.
    pub fn goes_to(&mut self, share: Option<usize>) {
        self.share = share;
    }

    /// The request's body is to be another one.
    pub fn decode(&mut self, decoding: Option<Decoding>) {
        self.decoding = decoding;
    }

    /// What came behind a request whose body was made another one.
    pub fn rest(&mut self) -> Vec<u8> {
        self.decoding.take().map(Decoding::into_rest).unwrap_or_default()
    }

    /// Reads what the exchange is to see of the request's body.
    fn poll_body(&mut self, cx: &mut Task<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let Some(decoding) = &mut self.decoding else { return self.client.poll_read(cx, buffer) };
        while !decoding.is_ready() {
            let count = ready!(self.client.poll_read(cx, buffer))?;
            decoding.take(&mut buffer[..count]);
        }
        Poll::Ready(decoding.read(buffer))
    }

    /// A copy of the request waits for its body.
    pub fn copy(&mut self, copy: Option<Copying>) {
        self.copies.extend(copy);
    }
}

impl Sink for Policed<'_> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.client.write(pieces)
    }

    fn poll_write(&mut self, cx: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.client.poll_write(cx, bytes)
    }
}

impl Duplex for Policed<'_> {
    fn poll_read(&mut self, cx: &mut Task<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let polled = self.poll_body(cx, buffer);
        if !self.copies.is_empty()
            && let Poll::Ready(Ok(count)) = &polled
        {
            let copies = std::mem::take(&mut self.copies);
            self.copies = copies.into_iter().filter_map(|copy| copy.take(&buffer[..*count])).collect();
        }
        polled
    }

    fn poll_shutdown(&mut self, cx: &mut Task<'_>) -> Poll<io::Result<()>> {
        self.client.poll_shutdown(cx)
    }
}

impl ClientSide for Policed<'_> {
    /// Only a request of HTTP/2 can say that it is one.
    const EXTENDED: bool = true;
    const POLICED: bool = true;
}

impl ClientStream for Policed<'_> {
    fn take_trailers(&mut self) -> Vec<u8> {
        let trailers = self.client.take_trailers();
        match &self.decoding {
            Some(decoding) if trailers.is_empty() => decoding.trailers().to_vec(),
            _ => trailers,
        }
    }

    fn poll_gone(&mut self, cx: &mut Task<'_>, half_close: bool) -> Poll<()> {
        self.client.poll_gone(cx, half_close)
    }

    fn poll_room(&mut self, cx: &mut Task<'_>) -> Poll<usize> {
        self.client.poll_room(cx)
    }

    fn may_send(&self) -> bool {
        self.client.may_send()
    }

    fn read_ahead(&self) -> usize {
        self.client.read_ahead()
    }

    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> io::Result<()> {
        self.client.interim(backlog, head)
    }

    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> io::Result<()> {
        self.client.switch(backlog, head, bytes)
    }

    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> io::Result<()> {
        let Some(transform) = &mut self.transform else {
            return self.client.respond(backlog, head, body, chunked, data);
        };
        self.out.clear();
        if !data.is_empty() {
            transform.push(data, &mut self.out).map_err(Unfit)?;
        }
        // What ends the client's copy is no longer what ended the endpoint's.
        let mut reader = BodyReader::new(Length::UntilClose);
        if body.is_done() {
            transform.finish(&mut self.out).map_err(Unfit)?;
            reader.end_with(body.trailers().to_vec());
        }
        self.client.respond(backlog, head, &reader, self.version == Version::Http11, &self.out)
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.client.answer(backlog, head, body)
    }

    fn tls(&self) -> Option<&Negotiated> {
        self.client.tls()
    }

    fn may_be_grpc(&self) -> bool {
        self.client.may_be_grpc()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.client.local_address()
    }

    fn transform(&mut self) -> Option<&mut Option<Box<dyn Transform>>> {
        Some(&mut self.transform)
    }

    fn share(&self) -> Option<usize> {
        self.share
    }
}
