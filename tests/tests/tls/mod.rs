//! TLS on both sides: the choice of certificates, the admission of clients, and connections that are cut off.

mod authorities;
mod books;
mod buffered;
mod certificates;
mod client_fallback;
mod clients;
mod https;
mod identity;
mod over_http2;
mod resumption;
mod server_name;
mod subject_names;
mod testssl;
mod unusable;
mod upstream;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tollgate_tests::{Authority, Gateway, Issued};

/// A directory of certificates. The drop removes it.
pub(crate) struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        // If this fails, the files stay in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Files {
    /// Creates an empty directory.
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

    /// Writes `NAME.pem` and `NAME.key`.
    pub fn put(&self, name: &str, issued: &Issued) {
        self.write(&format!("{name}.pem"), &issued.chain);
        self.write(&format!("{name}.key"), &issued.key);
    }

    /// Returns `certificate: NAME.pem, key: NAME.key`, with absolute paths.
    pub fn pair(&self, name: &str) -> String {
        let path = self.path().display();
        format!("certificate: {path}/{name}.pem, key: {path}/{name}.key")
    }
}

/// Starts a gateway with a certificate for `a.example`. Returns it with the authority that has signed the
/// certificate.
pub(crate) fn gateway(yaml: &str) -> (Gateway, Authority, Files) {
    let (authority, files) = (Authority::new(), Files::new());
    files.put("a", &authority.issue(&["a.example", "127.0.0.1"]));
    files.write("ca.pem", &authority.pem());
    // `$ADMIN` begins with `$A`, and belongs to the harness.
    let yaml = yaml.replace("$ADMIN", "#ADMIN").replace("$A", &files.pair("a"));
    let yaml = yaml.replace("#ADMIN", "$ADMIN").replace("$FILES", &files.path().display().to_string());
    let gateway = Gateway::start(&yaml);
    (gateway, authority, files)
}

/// Both versions of TLS: they differ in the handshake and in session resumption.
fn versions() -> [&'static SupportedProtocolVersion; 2] {
    [&TLS12, &TLS13]
}
