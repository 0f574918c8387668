//! The gateway wipes secrets from memory when nothing needs them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use tollgate_tests::{Authority, Gateway, Signal, eventually};

/// Returns how often a text occurs in the memory of a process.
fn copies(pid: u32, text: &str) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the gateway runs");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("a child's memory can be read");
    let mut found = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((start, end)) = range.split_once('-') else { continue };
        let number = |text: &str| u64::from_str_radix(text, 16).expect("an address");
        let (start, end) = (number(start), number(end));
        // Only writable memory: the program's own pages hold no secret.
        if !rights.starts_with("rw") {
            continue;
        }
        let mut bytes = vec![0; usize::try_from(end - start).expect("it fits")];
        if memory.read_exact_at(&mut bytes, start).is_ok() {
            found += memchr::memmem::find_iter(&bytes, text).count();
        }
    }
    found
}

/// Returns a secret that occurs nowhere else.
fn secret(of: &str, generation: u32) -> String {
    format!("{of}-{generation}-4yLqZp8WnTfB2cXvK7mRgUdJ0HsEoAiN")
}

fn config(generation: u32) -> String {
    format!(
        "admin: {{bind: $ADMIN, tokens: {{t: {{role: read, token: {token}}}}}}}\n\
         consumers: {{a: {{hmac_keys: {{k: {hmac}}}}}}}\n\
         upstreams: {{u: {{endpoints: \"127.0.0.1:1\", balance: {{sticky: {{cookie: c, secret: {sticky}}}}}}}}}\n\
         routes:\n\
         - {{match: /a, to: u, policies: {{hmac: on, jwt: {{secret: {jwt}}}}}}}\n\
         - {{match: /b, to: u, policies: {{any_of: [{{jwt: {{issuers: [{{issuer: i, secret: {issuer}}}]}}}}]}}}}\n",
        token = secret("token", generation),
        hmac = secret("hmac", generation),
        sticky = secret("sticky", generation),
        jwt = secret("jwt", generation),
        issuer = secret("issuer", generation),
    )
}

#[test]
fn replaced_secrets_are_erased_from_memory() {
    let gateway = Gateway::start(&config(1));
    let names = ["token", "hmac", "sticky", "jwt", "issuer"];
    assert!(names.iter().any(|name| copies(gateway.pid(), &secret(name, 1)) > 0), "they are found at all");
    gateway.write_config(&format!("listen: $LISTEN\n{}", config(2)));
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.stderr().contains("generation 2"));
    for name in names {
        eventually(name, || copies(gateway.pid(), &secret(name, 1)) == 0);
    }
}

#[test]
fn a_private_key_is_kept_as_a_key_alone() {
    private_key_is_wiped(false);
}

#[test]
fn a_private_key_beside_its_certificate_is_kept_as_a_key_alone() {
    private_key_is_wiped(true);
}

/// Replaces a certificate and its key by a reload. `in_one_file`: both files of the old one hold the certificate and the
/// key.
fn private_key_is_wiped(in_one_file: bool) {
    let authority = Authority::new();
    let files = crate::tls::Files::new();
    let own = authority.issue(&["a.example"]);
    let both = format!("{}{}", own.chain, own.key);
    files.write("a.pem", if in_one_file { &both } else { &own.chain });
    files.write("a.key", if in_one_file { &both } else { &own.key });
    let path = files.path().display();
    let tls = |name: &str| {
        format!("{{bind: $LISTEN, tls: {{certificate: {path}/{name}.pem, key: {path}/{name}.key}}}}")
    };
    let rest = "routes: [{match: /*, respond: hi}]\n";
    let gateway = Gateway::start(&format!("listen: {}\n{rest}", tls("a")));
    let other = authority.issue(&["a.example"]);
    files.write("b.pem", &other.chain);
    files.write("b.key", &other.key);
    gateway.write_config(&format!("listen: {}\nadmin: $ADMIN\n{rest}", tls("b")));
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.stderr().contains("generation 2"));
    // The last bytes of the key, in base64.
    let line = own.key.lines().nth(2).expect("a key has lines");
    eventually("the old key is gone", || copies(gateway.pid(), line) == 0);
}
