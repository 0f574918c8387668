//! Compiles `consumers`, which is not a policy but the credentials that policies look up.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::{Consumer, ConsumerEntry, Consumers, HmacSecret, is_password_hash};

/// Compiles the consumers of all sources. A credential that two of them share is an error, which no source
/// can find alone.
pub(super) fn consumers(written: &[&config::ConsumerSpec], problems: &mut Vec<Problem>) -> Consumers {
    problems.extend(config::shared_credentials(written.iter().copied()));
    let mut password = |written: &config::ConsumerSpec| {
        let hash = written.password.as_ref()?;
        if !is_password_hash(hash.value.reveal()) {
            let problem =
                Problem::error(hash.at, "this is no hash that can be verified at an acceptable cost");
            problems.push(problem.expected(
                "argon2 (1 GiB and 20 passes at most) in the PHC format, bcrypt (a cost of 15 at most), a hash of crypt \
                 (1,000,000 rounds at most), or one of `htpasswd`",
            ));
        }
        Some(hash.value.reveal().to_owned())
    };
    let known = |written: &&config::ConsumerSpec| ConsumerEntry {
        consumer: Consumer {
            name: written.name.value.clone(),
            groups: written.groups.clone(),
            claims: Vec::new(),
        },
        api_keys: written.api_keys.iter().map(|(digest, _)| digest.0).collect(),
        password: password(written),
        hmac_keys: written
            .hmac_keys
            .iter()
            .map(|(id, key, _)| (id.clone(), HmacSecret::new(&key.0)))
            .collect(),
        certificates: written.certificates.iter().cloned().map(Into::into).collect(),
    };
    Consumers::new(written.iter().map(known).collect())
}
