//! Parsers of the files under `/proc/PID`. They take text, so that tests can pass any input.

/// Nanoseconds in a tick of `/proc/PID/stat`: `USER_HZ` is 100 on every Linux architecture that Rust supports
/// (`proc(5)`).
pub(crate) const NANOS_PER_TICK: u64 = 10_000_000;

/// The needed fields of `/proc/PID/stat` and `/proc/PID/task/TID/stat`. Times are in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) user: u64,
    pub(crate) system: u64,
    /// Time of reaped children, including their own children.
    pub(crate) reaped_user: u64,
    pub(crate) reaped_system: u64,
    /// Start time in ticks after boot; distinguishes a thread from a later one with the same id.
    pub(crate) start: u64,
}

/// Parses a `stat` line. The name may contain spaces and parentheses, so the fields start after the last `)`.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let name = text.get(open + 1..close)?.to_owned();
    let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // proc(5) numbers fields from 1 with the pid; the state, field 3, is index 0 here.
    Some(Stat {
        name,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        user: number(11)?,
        system: number(12)?,
        // The kernel prints these two as signed; they are never negative.
        reaped_user: number(13)?,
        reaped_system: number(14)?,
        start: number(19)?,
    })
}

/// Returns the first number of a `schedstat` line: nanoseconds on a CPU.
pub(crate) fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the number after `label`, which starts a line: KiB in `status` and `smaps_rollup`, counts
/// elsewhere.
pub(crate) fn number_after(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "5776 (ng (x) worker) S 5775 5770 5776 0 -1 4194560 731 12 0 0 40 16 3 2 20 0 1 0 77358 \
                        9977856 1423 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0";

    #[test]
    fn stat_is_read_past_an_odd_name() {
        let expected = Stat {
            name: "ng (x) worker".into(),
            parent: 5_775,
            group: 5_770,
            user: 40,
            system: 16,
            reaped_user: 3,
            reaped_system: 2,
            start: 77_358,
        };
        assert_eq!(parse_stat(STAT), Some(expected));
        assert_eq!(parse_stat("5776 (short) S 1"), None);
        assert_eq!(parse_stat(") 1 ("), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn schedstat_and_status_lines() {
        assert_eq!(parse_schedstat("566465116 56440 7\n"), Some(566_465_116));
        assert_eq!(parse_schedstat(""), None);
        let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8512 kB\nvoluntary_ctxt_switches:\t12\n";
        assert_eq!(number_after(status, "VmRSS:"), Some(8_512));
        assert_eq!(number_after(status, "voluntary_ctxt_switches:"), Some(12));
        assert_eq!(number_after(status, "VmSwap:"), None);
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_parsers(text in "[\\PC\n]{0,120}") {
            let _ = parse_stat(&text);
            let _ = parse_schedstat(&text);
            let _ = number_after(&text, "Pss:");
        }

        #[test]
        fn any_name_is_kept_whole(name in "[\\PC]{0,15}", user in 0u64..u64::MAX) {
            let line = format!("7 ({name}) S 1 7 7 0 -1 0 0 0 0 0 {user} 2 3 4 20 0 1 0 99 0 0");
            let stat = parse_stat(&line).unwrap();
            prop_assert_eq!((stat.name, stat.user, stat.start), (name, user, 99));
        }
    }
}
