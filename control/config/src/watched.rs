//! Which files a configuration was made of.

use std::path::{Path, PathBuf};

use crate::model::{Config, PemFile};

impl Config {
    /// Every file that it was read from and every one of certificates and keys that it names, each once; and the folders
    /// of included files, in which there may be more of them one day.
    #[must_use]
    pub fn sources(&self) -> Vec<PathBuf> {
        let read = self.files.iter().map(|file| PathBuf::from(&file.name));
        let folders = self.files.iter().skip(1).filter_map(|file| Path::new(&file.name).parent());
        let folders = folders.filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
        let mut all: Vec<PathBuf> =
            read.chain(folders).chain(self.pem().filter_map(|pem| pem.path.clone())).collect();
        all.sort();
        all.dedup();
        all
    }

    fn pem(&self) -> impl Iterator<Item = &PemFile> {
        let listen = self.listen.iter().filter_map(|listener| listener.tls.as_ref()).flat_map(|tls| {
            let client = tls.client.as_ref().map(|client| &client.ca);
            tls.certificates.iter().flat_map(|it| [&it.chain, &it.key]).chain(client)
        });
        let upstreams = self.upstreams.iter().filter_map(|upstream| upstream.tls.as_ref());
        let upstreams = upstreams
            .flat_map(|tls| tls.ca.iter().chain(tls.certificate.iter().flat_map(|it| [&it.chain, &it.key])));
        let named = self.certificates.iter().map(|named| &named.certificate);
        listen.chain(upstreams).chain(named.flat_map(|it| [&it.chain, &it.key]))
    }
}
