//! The new process's part of a binary upgrade.
//!
//! The old process started this one, with one end of a channel as its standard input. It carries these
//! messages, in order ([`upgrade`](crate::upgrade) has the other part):
//!
//! | From | Message | Meaning |
//! |---|---|---|
//! | old | [`SocketOffer`], then `sockets`, each as often as needed | these are my listening sockets |
//! | new | `ready` | my workers run; I accept nothing yet |
//! | old | `go` | I no longer serve the admin listener: begin |
//! | new | `serving`, and addresses; before it `more`, if there are many | every worker accepts on these |
//! | old | `done` | the supervisor knows about you; I drain |
//!
//! If one process ends early, the other continues alone.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_config::ListenAddress;
use tollgate_listen::Channel;
use tollgate_net::component;
use tracing::debug;

use crate::listeners::InheritedSockets;

/// An environment variable that tells a process to take over from its parent.
pub const TAKEOVER_VARIABLE: &str = "TOLLGATE_TAKEOVER";
/// The version of the protocol on the channel.
const PROTOCOL_VERSION: u64 = 1;
/// Most addresses in one message, which is 64 KiB at most. The path of a Unix socket has about 100 bytes.
const ADDRESSES_MAX: usize = 500;
/// The word of a message with addresses that `serving` follows.
pub const MORE_ADDRESSES: &str = "more";
/// How long the new process waits for each message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The addresses on which the old process listens. The sockets follow in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOffer {
    /// The address of each socket of `listen`, as it is written in the file.
    pub listen: Vec<ListenAddress>,
    /// The address of the admin listener, as it is written in the file.
    pub admin: Option<String>,
}

/// The process from which this one takes over.
#[derive(Debug)]
pub struct Predecessor(Channel);

impl SocketOffer {
    /// Returns the texts of the messages. All but the last say that more addresses follow.
    pub fn texts(&self) -> Vec<String> {
        let listen: Vec<_> = self.listen.iter().map(ListenAddress::to_string).collect();
        let mut chunks: Vec<&[String]> = listen.chunks(ADDRESSES_MAX).collect();
        let last = chunks.pop().unwrap_or_default();
        let earlier = chunks
            .into_iter()
            .map(|listen| json!({ "version": PROTOCOL_VERSION, "listen": listen, "more": true }));
        let last = json!({ "version": PROTOCOL_VERSION, "listen": last, "admin": self.admin });
        earlier.chain([last]).map(|message| message.to_string()).collect()
    }

    /// Receives the messages. `receive` returns the text of the next one.
    fn receive(mut receive: impl FnMut() -> io::Result<String>) -> io::Result<Self> {
        let mut whole = Self::default();
        loop {
            let (part, has_more) = Self::read(&receive()?)?;
            whole.listen.extend(part.listen);
            if !has_more {
                return Ok(Self { admin: part.admin, ..whole });
            }
        }
    }

    /// Parses a message. The second value says whether more addresses follow.
    fn read(text: &str) -> io::Result<(Self, bool)> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let value: Value = serde_json::from_str(text).map_err(io::Error::other)?;
        if value["version"] != PROTOCOL_VERSION {
            return Err(wrong(
                "the running process hands over in a way that this one does not know: restart",
            ));
        }
        let address = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        let listen = value["listen"].as_array().ok_or_else(|| wrong("no addresses"))?;
        let listen = listen.iter().map(|value| address(value).ok_or_else(|| wrong("no address")));
        let admin = value["admin"].as_str().map(str::to_owned);
        Ok((Self { listen: listen.collect::<io::Result<_>>()?, admin }, value["more"] == true))
    }

    /// Returns how many sockets follow.
    fn sockets(&self) -> usize {
        self.listen.len() + usize::from(self.admin.is_some())
    }
}

impl Predecessor {
    /// Returns the process from which this one takes over, and its sockets; `None` if there is none.
    ///
    /// # Errors
    /// There is one, but the handover fails.
    pub fn find() -> io::Result<Option<(Self, InheritedSockets)>> {
        if std::env::var_os(TAKEOVER_VARIABLE).is_none() {
            return Ok(None);
        }
        let channel = Channel::adopt(io::stdin().as_fd().try_clone_to_owned()?)?;
        // Otherwise a later reader of standard input would read the channel, and a copy of its end would stay
        // open.
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        let offer = SocketOffer::receive(|| Ok(channel.receive(MESSAGE_TIMEOUT)?.text))?;
        let mut sockets = Vec::new();
        while sockets.len() < offer.sockets() {
            sockets.extend(channel.receive(MESSAGE_TIMEOUT)?.sockets);
        }
        let mut sockets = sockets.into_iter();
        let mut inherited = InheritedSockets::default();
        let listeners = sockets.by_ref().map(TcpListener::from);
        inherited.listen.extend(offer.listen.iter().cloned().zip(listeners));
        inherited.admin = offer.admin.zip(sockets.next());
        let (listeners, admin) = (inherited.listen.len(), inherited.admin.is_some());
        debug!(target: component::UPGRADE, listeners, admin, "received the sockets of the old process");
        Ok(Some((Self(channel), inherited)))
    }

    /// Reports that all workers run, and waits for permission to serve. The end of the old process permits it
    /// too, since its place is free.
    ///
    /// # Errors
    /// The old process is alive but sends nothing. It has given up this process and will end it.
    pub fn ready(&self) -> io::Result<()> {
        let word = self.0.send("ready").and_then(|()| self.0.receive(MESSAGE_TIMEOUT));
        match word {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Reports the addresses on which every worker accepts, and waits until the supervisor knows about this
    /// process.
    pub fn serving<'a>(self, addresses: impl Iterator<Item = &'a ListenAddress>) {
        let texts = serving_texts(addresses);
        // The old process may be gone; this one serves all the same.
        let sent = texts.iter().try_for_each(|text| self.0.send(text));
        let _ = sent.and_then(|()| self.0.receive(MESSAGE_TIMEOUT));
    }
}

/// Returns the messages that report these addresses. The last one is `serving`.
fn serving_texts<'a>(addresses: impl Iterator<Item = &'a ListenAddress>) -> Vec<String> {
    let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
    let mut chunks: Vec<&[String]> = addresses.chunks(ADDRESSES_MAX).collect();
    let last = chunks.pop().unwrap_or_default();
    let text = |word: &str, addresses: &[String]| {
        std::iter::once(word).chain(addresses.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    };
    let earlier: Vec<String> = chunks.into_iter().map(|chunk| text(MORE_ADDRESSES, chunk)).collect();
    earlier.into_iter().chain([text("serving", last)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(offer: &SocketOffer) -> io::Result<SocketOffer> {
        let mut texts = offer.texts().into_iter();
        let received = SocketOffer::receive(|| Ok(texts.next().expect("a message")))?;
        assert_eq!(texts.next(), None, "each message is read");
        Ok(received)
    }

    #[test]
    fn an_offer_is_understood() {
        let address = |text: &str| text.parse::<ListenAddress>().expect("an address");
        let offer = SocketOffer {
            listen: vec![address("127.0.0.1:0"), address("[::]:8080"), address("[::]:8080")],
            admin: Some("unix:/run/tollgate.sock".to_owned()),
        };
        assert_eq!(passed(&offer).expect("an offer"), offer);
        assert_eq!(offer.sockets(), 4);
        assert_eq!(passed(&SocketOffer::default()).expect("an offer"), SocketOffer::default());
        for wrong in ["", "{}", r#"{"version": 2, "listen": []}"#, r#"{"version": 1, "listen": ["x"]}"#] {
            assert!(SocketOffer::read(wrong).is_err(), "{wrong}");
        }
    }

    /// A message of the channel has 64 KiB at most, and so would lose addresses.
    #[test]
    fn many_addresses_take_several_messages() {
        let path = "x".repeat(100);
        let listen: Vec<ListenAddress> =
            (0..2_345).map(|number| format!("unix:/{path}{number}").parse().expect("an address")).collect();
        let offer = SocketOffer { listen: listen.clone(), admin: Some("127.0.0.1:9911".to_owned()) };
        assert_eq!(offer.texts().len(), 5);
        assert_eq!(passed(&offer).expect("an offer"), offer);
        let serving = serving_texts(listen.iter());
        assert!(offer.texts().iter().chain(&serving).all(|text| text.len() < 64 * 1024));
        let (last, earlier) = serving.split_last().expect("a message");
        assert!(last.starts_with("serving ") && earlier.iter().all(|text| text.starts_with("more ")));
        let words = serving.iter().flat_map(|text| text.split(' ').skip(1));
        assert!(words.eq(listen.iter().map(ToString::to_string)));
    }
}
