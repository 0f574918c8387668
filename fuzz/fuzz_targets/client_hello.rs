//! The first bytes of a TLS connection that may pass through: any prefix either needs more, or decides like the whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_tls::{CLIENT_HELLO_MAX_BYTES, ClientHello, FirstBytes, ja4};

fuzz_target!(|bytes: &[u8]| {
    let whole = ClientHello::read(bytes);
    if let FirstBytes::Hello(hello) = &whole {
        // What is shown was received: the name is valid and not longer than its extension.
        let name = hello.server_name.as_deref().unwrap_or("a");
        assert!((1..=255).contains(&name.len()));
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase()));
        assert!(hello.alpn.len() <= bytes.len());
        // The fingerprint is lenient about what it does not show, and has one length.
        assert!(ja4(bytes).is_none_or(|print| print.len() == 36));
    }
    if bytes.len() >= CLIENT_HELLO_MAX_BYTES {
        assert_ne!(whole, FirstBytes::Partial, "no peer can make the gateway wait for ever");
    }
    for end in 0..bytes.len() {
        let early = ClientHello::read(&bytes[..end]);
        assert!(
            early == FirstBytes::Partial || early == whole,
            "{early:?} after {end} bytes, then {whole:?}"
        );
    }
});
