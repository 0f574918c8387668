//! The limit of open files, which bounds the number of connections.

use crate::failure::Failure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a run needs besides its connections: standard streams, an epoll and a timer for each
/// thread, and the descriptors of the surrounding program.
const BESIDE: u64 = 128;

/// Returns how many connections this process may open, given its hard limit of open files.
pub fn most_connections() -> u32 {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    u32::try_from(most.saturating_sub(BESIDE)).unwrap_or(u32::MAX)
}

/// Raises the soft limit to the hard limit, for this process and the ones it starts.
///
/// # Errors
/// If the kernel refuses; the limit then stays as it was.
pub fn raise_limit() -> std::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(())
}

/// Raises the soft limit to the hard limit if `connections` need it, and makes the kernel grow the table of
/// open files now. In a threaded process each doubling of that table takes some 20 ms, which would be
/// measured as part of a connect.
pub(crate) fn make_room(connections: u32) -> Result<(), Failure> {
    let limit = getrlimit(Resource::Nofile);
    let needed = u64::from(connections) + BESIDE;
    if limit.current.is_some_and(|current| current < needed) {
        if limit.maximum.is_some_and(|most| most < needed) {
            return Err(Failure::OpenFiles { connections, most: most_connections() });
        }
        raise_limit().map_err(|error| Failure::System("raise the limit on open files", error))?;
    }
    // The duplicated descriptor is closed again at once.
    let last = i32::try_from(needed).unwrap_or(i32::MAX) - 1;
    let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), last);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_limit_is_refused_with_the_number_that_fits() {
        let most = most_connections();
        if most < u32::MAX {
            let Err(Failure::OpenFiles { connections, most: said }) = make_room(most + 1) else {
                panic!("expected a refusal")
            };
            assert_eq!((connections, said), (most + 1, most));
        }
        assert!(make_room(1).is_ok());
        raise_limit().unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
