//! Names and passwords from a Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::super::plain;
use super::reader::Reader;
use super::wanted::Wanted;
use crate::object::Kind;

/// The highest cost of bcrypt that the gateway verifies.
const COST_MAX: u32 = 15;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let kind = match reader.text("auth-type") {
        None => return,
        Some(kind) => kind,
    };
    if kind != "basic" {
        let instead = "passwords are checked by `basic` only; all paths answer 503";
        reader.unsupported("auth-type", instead);
        return wanted.deny(format!("auth-type {kind} is not supported"));
    }
    reader.same("auth-type");
    match users(reader) {
        Ok(users) => {
            let realm = reader.text("auth-realm").unwrap_or_default();
            let realm: String = realm
                .chars()
                .filter(|c| (c.is_ascii_graphic() || *c == ' ') && !"\"\\".contains(*c))
                .collect();
            let mut basic = json!({ "users": users, "consumer_header": "off", "groups_header": "off" });
            if !realm.is_empty() {
                basic["realm"] = plain(&realm).into();
            }
            wanted.policies.insert("basic".to_owned(), basic);
        }
        Err(why) => {
            reader.invalid("auth-secret", format!("{why}; all paths answer 503"));
            wanted.deny(why);
        }
    }
}

/// Reads the users with the hashes of their passwords.
fn users(reader: &mut Reader<'_>) -> Result<Map<String, Value>, String> {
    let name = reader.reference("auth-secret", Kind::Secret)?;
    let name = name.ok_or_else(|| "auth-type needs auth-secret".to_owned())?;
    let secret = reader.objects.secrets.get(&name).and_then(|secret| secret.spec.as_ref().ok());
    let secret = secret.ok_or_else(|| format!("there is no Secret {name}"))?;
    let decode = |text: &str| STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let mut lines: Vec<(String, String)> = Vec::new();
    match reader.text("auth-secret-type") {
        None | Some("auth-file") => {
            let file = secret.data.get("auth").and_then(|text| decode(text));
            let file = file.ok_or_else(|| format!("the Secret {name} has no key `auth`"))?;
            for line in file.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
                // A comment may follow after a further colon.
                let mut parts = line.splitn(3, ':');
                if let (Some(user), Some(hash)) = (parts.next(), parts.next()) {
                    lines.push((user.to_owned(), hash.to_owned()));
                }
            }
        }
        Some("auth-map") => {
            let entries = secret.data.iter();
            lines.extend(
                entries.filter_map(|(user, hash)| Some((user.clone(), decode(hash)?.trim().to_owned()))),
            );
        }
        Some(other) => return Err(format!("there is no auth-secret-type {other:?}")),
    }
    let (good, bad): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(_, hash)| is_verifiable(hash));
    if bad.is_empty() {
        reader.same("auth-secret");
    } else {
        let names: Vec<String> =
            bad.iter().map(|(user, hash)| format!("{user} ({})", kind_of(hash))).collect();
        reader.unsupported(
            "auth-secret",
            format!(
                "these users cannot sign in until their passwords are set again with bcrypt (`htpasswd -B`) or argon2: {}",
                names.join(", ")
            ),
        );
    }
    match good.is_empty() {
        true => Err(format!("the Secret {name} has no password with bcrypt (`htpasswd -B`) or argon2")),
        false => Ok(good.into_iter().map(|(user, hash)| (user, hash.into())).collect()),
    }
}

/// Names the kind of a hash that the gateway does not verify. No message repeats the hash.
fn kind_of(hash: &str) -> &'static str {
    let kinds = [
        ("$apr1$", "MD5, the default of htpasswd"),
        ("{SHA}", "SHA-1 without a salt"),
        ("{SSHA}", "SHA-1"),
        ("$1$", "MD5"),
        ("$2", "bcrypt of a cost that is not verified"),
        ("$5$", "SHA-256 of crypt"),
        ("$6$", "SHA-512 of crypt"),
    ];
    let kind = kinds.iter().find(|(start, _)| hash.starts_with(start));
    kind.map_or("crypt or plain text", |(_, kind)| kind)
}

/// Returns whether the gateway verifies passwords by a hash.
fn is_verifiable(hash: &str) -> bool {
    if hash.starts_with("$argon2") {
        return true;
    }
    let rest = ["$2a$", "$2b$", "$2x$", "$2y$"].iter().find_map(|start| hash.strip_prefix(start));
    let cost =
        rest.and_then(|rest| rest.split_once('$')).map(|(cost, digest)| (cost.parse::<u32>(), digest.len()));
    matches!(cost, Some((Ok(4..=COST_MAX), 53)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn hashes() {
        let digest = "YUDH4LPhF5SiQuEneCdn9.ltTxgeJ.A7tkKykgt8kADTseU/KH3b.";
        for (hash, is) in [
            (format!("$2b$04${digest}"), true),
            (format!("$2y$10${digest}"), true),
            (format!("$2y$16${digest}"), false),
            (format!("$2y$03${digest}"), false),
            (format!("$2y$10${digest}x"), false),
            ("$argon2id$v=19$m=64,t=1,p=1$YWJjZGVmZ2g$YWJjZGVmZ2hpamtsbW5vcA".to_owned(), true),
            ("$apr1$abc$def".to_owned(), false),
            ("{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=".to_owned(), false),
            ("plain".to_owned(), false),
        ] {
            assert_eq!(is_verifiable(&hash), is, "{hash}");
        }
    }

    #[test]
    fn kinds_that_are_not_verified_have_names() {
        for (hash, kind) in [
            ("$apr1$abc$def", "MD5, the default of htpasswd"),
            ("{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=", "SHA-1 without a salt"),
            ("$2y$16$x", "bcrypt of a cost that is not verified"),
            ("$6$salt$x", "SHA-512 of crypt"),
            ("bGVh02xkuGli2", "crypt or plain text"),
        ] {
            assert_eq!(kind_of(hash), kind);
        }
    }

    #[test]
    fn without_its_secret_no_client_is_admitted() {
        for annotations in [
            [("auth-type", "basic"), ("auth-secret", "absent")].as_slice(),
            &[("auth-type", "basic")],
            &[("auth-type", "basic"), ("auth-secret", "other/absent")],
            &[("auth-type", "digest"), ("auth-secret", "absent")],
        ] {
            let reading = read_all(annotations);
            assert!(reading.wanted.denied.is_some() && reading.wanted.policies.is_empty(), "{annotations:?}");
        }
        let reading = read_all(&[("auth-type", "basic"), ("auth-secret", "absent")]);
        assert_eq!(
            reading.references.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["Secret demo/absent"]
        );
    }
}
