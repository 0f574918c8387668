//! The messages between the laboratory and an agent, and their frames: four bytes of length, then JSON.

use crate::arm::Arm;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use tollgate_lab_load::Plan;
use tollgate_lab_meter::machine::Facts;
use tollgate_lab_record::SystemUsed;
use tollgate_lab_study::{CpuSubject, Settings};

/// The longest message, in bytes. A plan with thousands of requests stays below it.
const LONGEST: usize = 64 << 20;

/// One operation of a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Begins the session; answered by [`Welcome`].
    Hello {
        /// The version of the laboratory, which must be the agent's.
        version: String,
        /// The cores of the role; `None` means all cores that the agent may use.
        cores: Option<Vec<usize>>,
    },
    /// Starts an origin; answered by [`OriginUp`].
    StartOrigin(Box<Settings>),
    /// Starts a system; answered by [`SystemUp`].
    StartSystem(Box<StartSystem>),
    /// Pauses a system.
    Pause(u64),
    /// Resumes a system.
    Resume(u64),
    /// Asks how a system ended; answered by `Option<String>`.
    Ended(u64),
    /// Stops a system or an origin.
    Stop(u64),
    /// Reads the counters of an origin; answered by `Option<Counted>`.
    Counted(u64),
    /// Reads the counters of a system's workers; answered by `Option<WorkerReading>`.
    Workers(u64),
    /// Reads what these have used so far, and keeps the reading; answered by its number.
    Read {
        /// A system.
        system: Option<u64>,
        /// An origin.
        origin: Option<u64>,
    },
    /// Answered by the [`crate::elsewhere::Interval`] between two readings. A reading may end one interval and
    /// begin another; the agent keeps the latest ones.
    Between(u64, u64),
    /// Reads the CPU time of processes that the agent did not start; answered by [`crate::cpu::CpuTime`].
    Cpu(CpuSubject),
    /// Runs the built-in generator; each line of its output is an answer, then its result.
    Load {
        /// The plan.
        plan: Box<Plan>,
        /// The certificate of the target.
        certificate: Option<Certificate>,
    },
    /// Watches the host for a moment; answered by the number of cores that programs use.
    Busy,
    /// Listens for one measurement of a link; answered by the port.
    Sink,
    /// Measures the link to a sink; answered by [`super::Link`].
    Link(SocketAddr),
}

/// The answer to [`Ask::Hello`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) facts: Facts,
    /// The cores of the role.
    pub(crate) cores: Vec<usize>,
    /// Logical cores of the host.
    pub(crate) host_cores: usize,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Certificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A system to start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartSystem {
    pub(crate) arm: Arm,
    pub(crate) settings: Settings,
    /// The addresses of the origins.
    pub(crate) origins: Vec<SocketAddr>,
    /// The most connections of clients.
    pub(crate) clients: u32,
    /// The address on which the system listens.
    pub(crate) listen: IpAddr,
    /// The run's certificate, if the settings use TLS.
    pub(crate) certificate: Option<Certificate>,
}

/// A system that was started, or the reason why it was not, in `used`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SystemUp {
    /// Its number and its port.
    pub(crate) up: Option<(u64, u16)>,
    pub(crate) used: SystemUsed,
}

/// An origin that was started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OriginUp {
    pub(crate) id: u64,
    pub(crate) ports: Vec<u16>,
    pub(crate) second_ports: Option<Vec<u16>>,
}

/// Writes one message.
pub(crate) fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let length = u32::try_from(bytes.len()).map_err(|_| io::Error::other("a message of over 4 GiB"))?;
    let frame = [&length.to_be_bytes()[..], &bytes].concat();
    stream.write_all(&frame)?;
    stream.flush()
}

/// Reads one message; `None` if the other end closed the connection between two messages.
pub(crate) fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    let mut have = 0;
    while have < length.len() {
        match stream.read(&mut length[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => have += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A peer whose process was killed closes without TLS's own end.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && have == 0 => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_arrive_as_sent() {
        let mut wire = Vec::new();
        send(&mut wire, &Ask::Between(3, 4)).unwrap();
        send(&mut wire, &Ask::Sink).unwrap();
        let mut wire = wire.as_slice();
        assert!(matches!(receive(&mut wire).unwrap(), Some(Ask::Between(3, 4))));
        assert!(matches!(receive(&mut wire).unwrap(), Some(Ask::Sink)));
        assert!(receive::<Ask>(&mut wire).unwrap().is_none());
        assert!(receive::<Ask>(&mut &[0, 0, 0, 9, b'{'][..]).is_err(), "cut off");
        assert!(receive::<Ask>(&mut &[0xff; 9][..]).is_err(), "too long");
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = receive::<Ask>(&mut bytes.as_slice());
        }
    }
}
