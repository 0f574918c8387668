//! The new process's part of a binary upgrade.
//!
//! The old process started this one, with one end of a channel as its standard input. It carries these
//! messages, in order ([`upgrade`](crate::upgrade) has the other part):
//!
//! | From | Message | Meaning |
//! |---|---|---|
//! | old | [`SocketOffer`], then `sockets`, as often as needed | these are my listening sockets |
//! | new | `ready` | my workers run; I accept nothing yet |
//! | old | `go` | I no longer serve the admin listener: begin |
//! | new | `serving`, and addresses | every worker accepts on these |
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
    /// Returns the text of the message.
    pub fn text(&self) -> String {
        let listen: Vec<_> = self.listen.iter().map(ListenAddress::to_string).collect();
        json!({ "version": PROTOCOL_VERSION, "listen": listen, "admin": self.admin }).to_string()
    }

    /// Parses the message.
    fn read(text: &str) -> io::Result<Self> {
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
        Ok(Self { listen: listen.collect::<io::Result<_>>()?, admin })
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
        let offer = SocketOffer::read(&channel.receive(MESSAGE_TIMEOUT)?.text)?;
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
        let words = std::iter::once("serving".to_owned()).chain(addresses.map(|address| address.to_string()));
        let text = words.collect::<Vec<_>>().join(" ");
        // The old process may be gone; this one serves all the same.
        let _ = self.0.send(&text).and_then(|()| self.0.receive(MESSAGE_TIMEOUT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_understood() {
        let address = |text: &str| text.parse::<ListenAddress>().expect("an address");
        let offer = SocketOffer {
            listen: vec![address("127.0.0.1:0"), address("[::]:8080"), address("[::]:8080")],
            admin: Some("unix:/run/tollgate.sock".to_owned()),
        };
        assert_eq!(SocketOffer::read(&offer.text()).expect("an offer"), offer);
        assert_eq!(offer.sockets(), 4);
        let none = SocketOffer::default();
        assert_eq!(SocketOffer::read(&none.text()).expect("an offer"), none);
        for wrong in ["", "{}", r#"{"version": 2, "listen": []}"#, r#"{"version": 1, "listen": ["x"]}"#] {
            assert!(SocketOffer::read(wrong).is_err(), "{wrong}");
        }
    }
}
