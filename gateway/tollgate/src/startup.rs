//! Errors of the start with advice, and the limit of open files.

use std::io;
use std::net::SocketAddr;

use tollgate_config::LogTarget;
use tollgate_plan::PlannedLog;

/// Explains why an address cannot be bound. `key` names its configuration key.
pub fn cannot_listen(key: &str, address: SocketAddr, error: &io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "something listens there already; `ss -ltnp` shows what".to_owned(),
        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE, or another `net.ipv4.ip_unprivileged_port_start`"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has this address".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("cannot listen on {address} (`{key}`): {advice}"))
}

/// Explains why an access log cannot be opened.
pub fn cannot_log(logs: &[PlannedLog], error: &io::Error) -> io::Error {
    let text = error.to_string();
    let paths = logs.iter().filter_map(|planned| match &planned.log.to {
        LogTarget::File(path) => Some(path),
        _ => None,
    });
    let mut failed = paths.filter(|path| text.starts_with(&format!("{}: ", path.display())));
    let message = match failed.next() {
        Some(path) => {
            let advice = match error.kind() {
                io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
                io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
                _ => text.clone(),
            };
            format!("cannot open the access log {}: {advice}", path.display())
        }
        None => format!("cannot start the access log: {error}"),
    };
    io::Error::new(error.kind(), message)
}

/// The initial size of the kernel's table of open files, in entries of 8 bytes.
const FILE_TABLE_SIZE: u64 = 65_536;

/// Raises the limit of open files to the hard limit: each connection is a file, and the usual soft limit of
/// 1,024 is meant for programs that use `select`. If that is not permitted, the limit stays as it is.
///
/// Must be called before there are threads, because it also sets the size of the table of open files. With
/// threads, the kernel doubles the table on demand, and every thread that opens a file waits for a grace
/// period of RCU (`expand_files`). All workers then stalled for some 20 ms at the first 64, 256, 512 and so
/// on connections.
pub fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let size = getrlimit(Resource::Nofile).current.unwrap_or(FILE_TABLE_SIZE).min(FILE_TABLE_SIZE);
    // Opening the highest number extends the table; the file is closed at once.
    let last = i32::try_from(size).unwrap_or(i32::MAX) - 1;
    let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), last);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        for (kind, word) in [
            (io::ErrorKind::AddrInUse, "listens there already"),
            (io::ErrorKind::PermissionDenied, "CAP_NET_BIND_SERVICE"),
            (io::ErrorKind::AddrNotAvailable, "no interface"),
        ] {
            let message = cannot_listen("listen", address, &kind.into()).to_string();
            assert!(message.contains("127.0.0.1:80") && message.contains("`listen`"), "{message}");
            assert!(message.contains(word), "{message}");
        }
        let to = LogTarget::File(PathBuf::from("/none/access.log"));
        let log = tollgate_config::AccessLog { to, ..tollgate_config::AccessLog::default() };
        let logs = [PlannedLog { key: log.key(), is_default: true, log, collector: None }];
        let error = io::Error::new(io::ErrorKind::NotFound, "/none/access.log: not found");
        let message = cannot_log(&logs, &error).to_string();
        assert_eq!(message, "cannot open the access log /none/access.log: its directory does not exist");
    }

    #[test]
    fn the_file_limit_is_the_highest_allowed() {
        raise_file_limit();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        let status = std::fs::read_to_string("/proc/self/status").expect("a process");
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).expect("a size");
        let room = limit.current.unwrap_or(FILE_TABLE_SIZE).min(FILE_TABLE_SIZE);
        assert!(size.trim().parse::<u64>().expect("a number") >= room, "{size} for {room}");
    }
}
