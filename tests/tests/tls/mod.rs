//! TLS on both sides: who gets which certificate, who is let in, and what a cut connection is.

mod authorities;
mod books;
mod buffered;
mod certificates;
mod clients;
mod https;
mod identity;
mod over_http2;
mod resumption;
mod server_name;
mod testssl;
mod unusable;
mod upstream;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tollgate_tests::{Authority, Gateway, Issued};

/// A folder of certificates. It is removed at the end.
pub(crate) struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        // What is left of it is in the system's own folder for such.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Files {
    /// An empty one.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tollgate-tls-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("written");
    }

    /// `NAME.pem` and `NAME.key`.
    pub fn put(&self, name: &str, issued: &Issued) {
        self.write(&format!("{name}.pem"), &issued.chain);
        self.write(&format!("{name}.key"), &issued.key);
    }

    /// `{certificate: NAME.pem, key: NAME.key}`, with whole paths.
    pub fn pair(&self, name: &str) -> String {
        let path = self.path().display();
        format!("certificate: {path}/{name}.pem, key: {path}/{name}.key")
    }
}

/// A gateway with certificates for `a.example`, and the authority that has signed them.
pub(crate) fn gateway(yaml: &str) -> (Gateway, Authority, Files) {
    let (authority, files) = (Authority::new(), Files::new());
    files.put("a", &authority.issue(&["a.example", "127.0.0.1"]));
    files.write("ca.pem", &authority.pem());
    // `$ADMIN` begins with `$A`, and is the harness's.
    let yaml = yaml.replace("$ADMIN", "#ADMIN").replace("$A", &files.pair("a"));
    let yaml = yaml.replace("#ADMIN", "$ADMIN").replace("$FILES", &files.path().display().to_string());
    let gateway = Gateway::start(&yaml);
    (gateway, authority, files)
}

/// Both versions: each has a handshake of its own, and resumes sessions in a way of its own.
fn versions() -> [&'static SupportedProtocolVersion; 2] {
    [&TLS12, &TLS13]
}
