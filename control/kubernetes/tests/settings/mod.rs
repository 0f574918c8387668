//! The settings with which the tests of the translation run: a pool of addresses, and nothing that is optional.

use tollgate_kubernetes::{AddressBlock, AddressPool, TranslationSettings};

pub fn settings() -> TranslationSettings {
    let block = AddressBlock { first: "192.0.2.0".parse().expect("an address"), prefix: 24 };
    TranslationSettings {
        controller: "tollgate.dev/gateway".to_owned(),
        addresses: AddressPool::new(vec![block]),
        services: None,
        publish_service: None,
        default_certificate: None,
        external_names: false,
    }
}
