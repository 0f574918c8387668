//! Taking the place of a running gateway: the side of the new process.
//!
//! The process before has started this one, with one end of a channel as its standard input. What is said on it, in
//! order ([`upgrade`](crate::upgrade) has the other side):
//!
//! | From | Message | Meaning |
//! |---|---|---|
//! | old | [`Offer`], then `sockets`, as often as needed | here is what I listen on |
//! | new | `ready` | my workers run; I accept nothing yet |
//! | old | `go` | I have stopped to serve the admin listener: begin |
//! | new | `serving`, and addresses | every worker accepts on these |
//! | old | `done` | the supervisor knows of you; I drain |
//!
//! Whoever ends before its turn leaves the other to go on alone.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_config::ListenAddress;
use tollgate_listen::Channel;

use crate::listeners::Inherited;

/// Set in the environment of a process that is to take another one's place.
pub const MARK: &str = "TOLLGATE_TAKEOVER";
/// The version of what is said on the channel.
const VERSION: u64 = 1;
/// How long the process before may take to a word.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the process before listens on: the sockets follow in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// For each socket of `listen` its address, as it is written in the file.
    pub listen: Vec<ListenAddress>,
    /// The address of the admin listener, as it is written in the file.
    pub admin: Option<String>,
}

/// The process before.
#[derive(Debug)]
pub struct Predecessor(Channel);

impl Offer {
    /// As it is said.
    pub fn text(&self) -> String {
        let listen: Vec<_> = self.listen.iter().map(ListenAddress::to_string).collect();
        json!({ "version": VERSION, "listen": listen, "admin": self.admin }).to_string()
    }

    /// Understands it.
    fn read(text: &str) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let value: Value = serde_json::from_str(text).map_err(io::Error::other)?;
        if value["version"] != VERSION {
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

    /// How many sockets belong to it.
    fn sockets(&self) -> usize {
        self.listen.len() + usize::from(self.admin.is_some())
    }
}

impl Predecessor {
    /// The process that this one is to take the place of, if any, and its sockets.
    ///
    /// # Errors
    /// When there is one that does not hand over.
    pub fn find() -> io::Result<Option<(Self, Inherited)>> {
        if std::env::var_os(MARK).is_none() {
            return Ok(None);
        }
        let channel = Channel::adopt(io::stdin().as_fd().try_clone_to_owned()?)?;
        // Else whatever reads the standard input some day would read the channel, and an end of it would stay open.
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        let offer = Offer::read(&channel.receive(PATIENCE)?.text)?;
        let mut sockets = Vec::new();
        while sockets.len() < offer.sockets() {
            sockets.extend(channel.receive(PATIENCE)?.sockets);
        }
        let mut sockets = sockets.into_iter();
        let mut inherited = Inherited::default();
        let listeners = sockets.by_ref().map(TcpListener::from);
        inherited.listen.extend(offer.listen.iter().cloned().zip(listeners));
        inherited.admin = offer.admin.zip(sockets.next());
        Ok(Some((Self(channel), inherited)))
    }

    /// Says that all workers run, and waits for the word to begin. If the process before has ended meanwhile, its
    /// place is free: that is the word too.
    ///
    /// # Errors
    /// When it is there and says nothing: it has given this one up, and will end it.
    pub fn ready(&self) -> io::Result<()> {
        let word = self.0.send("ready").and_then(|()| self.0.receive(PATIENCE));
        match word {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Says on which addresses every worker accepts, and waits until the supervisor knows.
    pub fn serving<'a>(self, addresses: impl Iterator<Item = &'a ListenAddress>) {
        let words = std::iter::once("serving".to_owned()).chain(addresses.map(|address| address.to_string()));
        let text = words.collect::<Vec<_>>().join(" ");
        // It may be gone: this one serves all the same.
        let _ = self.0.send(&text).and_then(|()| self.0.receive(PATIENCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_understood() {
        let address = |text: &str| text.parse::<ListenAddress>().expect("an address");
        let offer = Offer {
            listen: vec![address("127.0.0.1:0"), address("[::]:8080"), address("[::]:8080")],
            admin: Some("unix:/run/tollgate.sock".to_owned()),
        };
        assert_eq!(Offer::read(&offer.text()).expect("an offer"), offer);
        assert_eq!(offer.sockets(), 4);
        let none = Offer::default();
        assert_eq!(Offer::read(&none.text()).expect("an offer"), none);
        for wrong in ["", "{}", r#"{"version": 2, "listen": []}"#, r#"{"version": 1, "listen": ["x"]}"#] {
            assert!(Offer::read(wrong).is_err(), "{wrong}");
        }
    }
}
