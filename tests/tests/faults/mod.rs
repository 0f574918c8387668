//! Guarantees that must hold during faults, under load and through the real binary. These tests take long, so
//! they are ignored unless `make faults` runs them. Each prints its figures.

mod cap;
mod changes;
mod downloads;
mod etcd;
mod floods;
mod killed_gateway;
mod killed_origin;
pub mod load;
mod mirror;
pub mod network;
mod offered;
mod rate_limit;
mod relay;
mod reloads;
mod rolling_restart;
mod slow_clients;
mod stalled_gateway;
mod store;
mod storm;
mod streams;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns whether the gateway's binary is optimised. The speed of a debug build says nothing.
pub fn is_optimised() -> bool {
    !tollgate_tests::binary().iter().any(|part| part == "debug")
}

/// Permits this process, and the gateways that it starts, to open `count` files. Also makes the kernel grow
/// this process's file table now: a thread that opens a file during the growth waits some 20 ms, and so do
/// the threads that wait for it.
pub fn allow_files(count: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < count) {
        assert!(
            maximum.is_none_or(|maximum| maximum >= count),
            "{count} open files are not allowed: ulimit -Hn"
        );
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum");
    }
    fcntl_dupfd_cloexec(std::io::stderr(), i32::try_from(count).expect("a few thousand") - 1)
        .expect("a place");
}
