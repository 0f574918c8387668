//! A channel between a process and its successor, which carries messages and listening sockets. An upgrade
//! creates a [`Channel`] and starts the new program with one end as its standard input; the new program takes
//! over the sockets without refusing a connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

/// Most sockets in one message. The kernel allows 253 (SCM_MAX_FD).
const SOCKETS_MAX: usize = 128;
/// Longest text of a message in bytes.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// One end of a connection between two processes of this machine. It carries texts and sockets; a message
/// arrives whole or not at all.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A received message.
#[derive(Debug)]
pub struct ChannelMessage {
    /// The text that the sender passed.
    pub text: String,
    /// The sockets that came with it. They refer to the sender's own sockets, not to new ones: a connection
    /// in the queue of one can be accepted by either process.
    pub sockets: Vec<OwnedFd>,
}

impl Channel {
    /// Creates both ends. The second is for the other process: a child gets it as its standard input, which
    /// needs no `unsafe`.
    ///
    /// # Errors
    /// If the kernel refuses the sockets.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(here), there))
    }

    /// Wraps an end that [`pair`](Self::pair) made.
    ///
    /// # Errors
    /// If the descriptor is not a Unix socket of type SEQPACKET.
    pub fn adopt(end: OwnedFd) -> io::Result<Self> {
        let is_one = sockopt::socket_domain(&end).is_ok_and(|domain| domain == AddressFamily::UNIX)
            && sockopt::socket_type(&end).is_ok_and(|kind| kind == SocketType::SEQPACKET);
        match is_one {
            true => Ok(Self(end)),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a channel of a gateway")),
        }
    }

    /// Sends a text.
    ///
    /// # Errors
    /// If the other end is closed.
    pub fn send(&self, text: &str) -> io::Result<()> {
        self.send_with(text, &[])
    }

    /// Sends sockets in one or more messages, each with the same text.
    ///
    /// # Errors
    /// If the other end is closed.
    pub fn send_sockets(&self, text: &str, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
        sockets.chunks(SOCKETS_MAX).try_for_each(|some| self.send_with(text, some))
    }

    fn send_with(&self, text: &str, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(SOCKETS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(sockets)) {
            return Err(io::Error::other("too many sockets for one message"));
        }
        // If the other end is closed, return an error instead of raising SIGPIPE.
        sendmsg(&self.0, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the next message, at most for `within`.
    ///
    /// # Errors
    /// `TimedOut` if none arrives in time, `UnexpectedEof` if the other end is closed.
    pub fn receive(&self, within: Duration) -> io::Result<ChannelMessage> {
        self.wait(within)?;
        let mut text = vec![0; TEXT_MAX_BYTES];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(SOCKETS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut text)];
        let came = recvmsg(&self.0, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut sockets = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                sockets.extend(descriptors);
            }
        }
        if came.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Some sockets are missing; the process may have run out of descriptors, for example.
        if came.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::other("a message was cut: too few file descriptors?"));
        }
        text.truncate(came.bytes);
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        Ok(ChannelMessage { text, sockets })
    }

    fn wait(&self, within: Duration) -> io::Result<()> {
        let end = Instant::now() + within;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)], Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn sockets_are_handed_over_with_the_clients_in_their_queues() {
        let (here, there) = Channel::pair().expect("a pair");
        let there = Channel::adopt(there).expect("an end");
        let listeners: Vec<_> =
            (0..SOCKETS_MAX + 3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let addresses: Vec<_> =
            listeners.iter().map(|listener| listener.local_addr().expect("one")).collect();
        let _waiting = TcpStream::connect(addresses[5]).expect("queued");
        let borrowed: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
        let sender = std::thread::scope(|scope| {
            let sending = scope.spawn(|| here.send_sockets("sockets", &borrowed));
            let mut came = Vec::new();
            while came.len() < borrowed.len() {
                let message = there.receive(SOON).expect("a message");
                assert_eq!(message.text, "sockets");
                came.extend(message.sockets.into_iter().map(TcpListener::from));
            }
            sending.join().expect("no panic").expect("sent");
            came
        });
        drop(listeners);
        let came: Vec<_> = sender.iter().map(|listener| listener.local_addr().expect("one")).collect();
        assert_eq!(came, addresses);
        sender[5].accept().expect("who waited is still there");
    }

    #[test]
    fn silence_and_a_closed_channel_differ() {
        let (here, there) = Channel::pair().expect("a pair");
        let kind = |within| here.receive(within).expect_err("nothing comes").kind();
        assert_eq!(kind(Duration::from_millis(1)), io::ErrorKind::TimedOut);
        drop(there);
        assert_eq!(kind(SOON), io::ErrorKind::UnexpectedEof);
        assert!(here.send("hello").is_err());
    }

    #[test]
    fn a_descriptor_that_is_no_channel_is_rejected() {
        let file = std::fs::File::open("/dev/null").expect("there");
        assert!(Channel::adopt(file.into()).is_err());
        let (stream, _) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert!(Channel::adopt(stream.into()).is_err());
    }
}
