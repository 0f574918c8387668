//! `grpc-timeout`: a parsed value survives writing and parsing unchanged.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tollgate_http::grpc::timeout;

fuzz_target!(|input: &[u8]| {
    let Some(time) = timeout::parse(input) else { return };
    assert!((2..=9).contains(&input.len()) && time <= Duration::from_secs(99_999_999 * 3600));
    let mut text = Vec::new();
    timeout::write(&mut text, time);
    let again = timeout::parse(&text).expect("what is written is read");
    assert_eq!(again, time, "a value of eight digits fits as it is");
    let mut twice = Vec::new();
    timeout::write(&mut twice, again);
    assert_eq!(twice, text);
});
