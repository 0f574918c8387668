//! Names for objects outside this process (folders, cgroups) that identify the process that created them. A
//! later run uses them to remove what a killed run left behind.

use crate::process::start_time;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// The prefix of every name.
const PREFIX: &str = "tollgate-lab";

/// Returns a unique name: `tollgate-lab.NAMESPACE.PID.START.NUMBER.PURPOSE`. Characters of the purpose that
/// are unsafe in paths become `-`.
pub(crate) fn name(purpose: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let purpose: String = purpose.chars().map(plain).take(64).collect();
    format!("{PREFIX}.{}.{pid}.{}.{number}.{purpose}", namespace(), start_time(pid).unwrap_or(0))
}

/// Returns whether the object with this name was created by a laboratory process that no longer runs.
///
/// Only names of this process-id namespace are considered, since process ids of another container mean
/// nothing here.
pub(crate) fn is_orphan(name: &str) -> bool {
    let mut parts = name.split('.');
    if parts.next() != Some(PREFIX) || parts.next() != Some(namespace().as_str()) {
        return false;
    }
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    match (number(), number()) {
        (Some(pid), Some(start)) => u32::try_from(pid).ok().and_then(start_time) != Some(start),
        _ => false,
    }
}

/// Returns the number of this process-id namespace; 0 if the kernel does not report it.
fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    if digits.is_empty() { "0".into() } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_their_living_owner_is_known() {
        let (one, two) = (name("origin/1 a.b"), name("origin/1 a.b"));
        assert_ne!(one, two);
        assert!(one.ends_with(".origin-1-a-b"), "{one}");
        assert!(!is_orphan(&one));
    }

    #[test]
    fn only_the_dead_of_this_namespace_are_orphans() {
        let space = namespace();
        // Process ids end at 2^22 (`proc(5)`, pid_max), so no process has this one.
        assert!(is_orphan(&format!("tollgate-lab.{space}.99999999.5.0.x")));
        // The id now belongs to another process.
        assert!(is_orphan(&format!("tollgate-lab.{space}.{}.1.0.x", std::process::id())));
        assert!(!is_orphan("tollgate-lab.1.99999999.5.0.x"));
        assert!(!is_orphan(&format!("tollgate-lab.{space}.x.5.0.x")));
        assert!(!is_orphan(&format!("someone.{space}.99999999.5.0.x")));
        assert!(!is_orphan("tollgate-lab"));
    }
}
