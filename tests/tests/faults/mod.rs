//! What must hold while something breaks, under load and by the real binary. These take long, so they are ignored
//! unless `make faults` asks for them. Each prints its figures.

mod cap;
mod changes;
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

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns whether the gateway's binary is one whose speed tells something: a debug build is not.
pub fn is_optimised() -> bool {
    !tollgate_tests::binary().iter().any(|part| part == "debug")
}

/// Lets this process, and the gateways that it starts, have so many open files; and has this one's table of them grow now,
/// since who opens a file while it does waits for some 20 ms, as do those that wait for whatever it is to do then.
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
