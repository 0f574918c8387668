//! Recognises errors that are caused by a shortage on this machine. Health checks and pools do not count such
//! errors against the endpoint.

use std::io;

use rustix::io::Errno;

/// Whether a call failed because this process or machine is out of file descriptors or memory. Such an error
/// says nothing about the peer.
#[must_use]
pub fn is_shortage(error: &io::Error) -> bool {
    const SHORTAGES: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| SHORTAGES.contains(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_short_here() {
        let shortage = |error: Errno| is_shortage(&error.into());
        assert!(shortage(Errno::MFILE) && shortage(Errno::NFILE));
        assert!(!shortage(Errno::CONNREFUSED) && !shortage(Errno::HOSTUNREACH));
        assert!(!is_shortage(&io::ErrorKind::NotFound.into()));
    }
}
