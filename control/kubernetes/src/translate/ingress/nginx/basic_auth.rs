//! Names and passwords from a Secret.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::super::plain;
use super::reader::Reader;
use super::wanted::Wanted;
use crate::object::Kind;

/// The highest cost of bcrypt that the gateway verifies.
const COST_MAX: u32 = 15;
/// The rounds of SHA-crypt that the gateway verifies.
const ROUNDS: RangeInclusive<u32> = 1000..=1_000_000;
/// The rounds of a hash of SHA-crypt that names none.
const ROUNDS_DEFAULT: u32 = 5000;
/// The most users that a message names.
const NAMED_USERS_MAX: usize = 20;

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
    let weak: Vec<_> = good.iter().filter(|(_, hash)| weakness(hash).is_some()).collect();
    if !bad.is_empty() {
        let names = named(bad.iter().map(|(user, hash)| format!("{user} ({})", kind_of(hash))));
        let how =
            "these users cannot sign in until their passwords are set again with bcrypt (`htpasswd -B`)";
        reader.unsupported("auth-secret", format!("{how} or argon2: {names}"));
    } else if !weak.is_empty() {
        let kinds =
            weak.iter().map(|(user, hash)| format!("{user} ({})", weakness(hash).unwrap_or_default()));
        let how = "weak hashes, from which most passwords can be guessed; set them again with bcrypt";
        reader.differs("auth-secret", format!("{how} (`htpasswd -B`) or argon2: {}", named(kinds)));
    } else {
        reader.same("auth-secret");
    }
    match good.is_empty() {
        true => Err(format!("the Secret {name} has no password that can be verified")),
        false => Ok(good.into_iter().map(|(user, hash)| (user, hash.into())).collect()),
    }
}

/// Lists users for a message.
fn named(users: impl ExactSizeIterator<Item = String>) -> String {
    let more = users.len().saturating_sub(NAMED_USERS_MAX);
    let names: Vec<String> = users.take(NAMED_USERS_MAX).collect();
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Names the kind of a hash that the gateway does not verify. No message repeats the hash.
fn kind_of(hash: &str) -> &'static str {
    let kinds = [
        ("$2", "bcrypt of a cost that is not verified"),
        ("$5$", "SHA-256 of crypt with rounds that are not verified"),
        ("$6$", "SHA-512 of crypt with rounds that are not verified"),
        ("{PLAIN}", "plain text"),
        ("$y$", "yescrypt"),
    ];
    let kind = kinds.iter().find(|(start, _)| hash.starts_with(start));
    kind.map_or("crypt with DES, plain text or a malformed hash", |(_, kind)| kind)
}

/// Names the kind of a weak hash; `None`: it is not weak.
fn weakness(hash: &str) -> Option<&'static str> {
    let kinds = [
        ("$apr1$", "MD5, the default of htpasswd"),
        ("$1$", "MD5"),
        ("{SHA}", "SHA-1 without a salt"),
        ("{SSHA}", "SHA-1"),
    ];
    kinds.iter().find(|(start, _)| hash.starts_with(start)).map(|(_, kind)| *kind)
}

/// Returns whether the gateway verifies passwords by a hash. The gateway refuses a document with any other hash.
fn is_verifiable(hash: &str) -> bool {
    let after = |starts: &[&str]| starts.iter().find_map(|start| hash.strip_prefix(start));
    if hash.starts_with("$argon2") {
        return true;
    }
    if let Some(rest) = after(&["$2a$", "$2b$", "$2x$", "$2y$"]) {
        let cost = rest.split_once('$').map(|(cost, digest)| (cost.parse::<u32>(), digest.len()));
        return matches!(cost, Some((Ok(4..=COST_MAX), 53)));
    }
    if let Some(rest) = after(&["$apr1$", "$1$"]) {
        let parts = rest.split_once('$');
        return parts.is_some_and(|(salt, digest)| is_crypt(salt, 0..=8) && is_crypt(digest, 22..=22));
    }
    if let Some(rest) = after(&["$5$", "$6$"]) {
        let (rounds, rest) = match rest.strip_prefix("rounds=").and_then(|rest| rest.split_once('$')) {
            Some((rounds, rest)) => (rounds.parse().unwrap_or(0), rest),
            None => (ROUNDS_DEFAULT, rest),
        };
        let length = if hash.starts_with("$5$") { 43 } else { 86 };
        let is_whole = |(salt, digest)| is_crypt(salt, 1..=16) && is_crypt(digest, length..=length);
        return ROUNDS.contains(&rounds) && rest.split_once('$').is_some_and(is_whole);
    }
    let is_sha1 = |rest: &str, lengths: RangeInclusive<usize>| {
        STANDARD.decode(rest).is_ok_and(|bytes| lengths.contains(&bytes.len()))
    };
    after(&["{SHA}"]).is_some_and(|rest| is_sha1(rest, 20..=20))
        || after(&["{SSHA}"]).is_some_and(|rest| is_sha1(rest, 21..=84))
}

/// Returns whether a text has such a length, and only characters of crypt(3).
fn is_crypt(text: &str, lengths: RangeInclusive<usize>) -> bool {
    let is_of_crypt = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/');
    lengths.contains(&text.len()) && text.chars().all(is_of_crypt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::RawObject;
    use crate::objects::Objects;
    use crate::translate::ingress::nginx::Reading;
    use crate::translate::ingress::nginx::reader::Behaviour;
    use crate::translate::ingress::nginx::tests::{read_all, read_with};

    /// Reads an Ingress whose users are in a file of `htpasswd`.
    fn read_users(file: &str) -> Reading {
        let secret: RawObject = serde_json::from_value(json!({
            "metadata": {"namespace": "demo", "name": "users"},
            "data": {"auth": STANDARD.encode(file)},
        }))
        .expect("a Secret");
        let mut objects = Objects::default();
        objects.put(Kind::Secret, secret);
        read_with(&objects, &[("auth-type", "basic"), ("auth-secret", "users")])
    }

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
            ("$apr1$Zk3v$zrUHnc3neMu1SxlYRVyIb.".to_owned(), true),
            ("$1$saltsalt$NuzA7WTAelpl95xgBGWN60".to_owned(), true),
            ("$5$saltsalt$myjXcpMpE2Ofk7fj9hqyNYSn6lmWG4Mqnjx.KIRRr4/".to_owned(), true),
            (format!("$6$saltsalt${}", "x".repeat(86)), true),
            (format!("$6$rounds=656000$saltsalt${}", "x".repeat(86)), true),
            (format!("$6$rounds=9000000$saltsalt${}", "x".repeat(86)), false),
            (format!("$6$rounds=x$saltsalt${}", "x".repeat(86)), false),
            (format!("$6$saltsalt${}", "x".repeat(85)), false),
            ("{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=".to_owned(), true),
            ("{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M".to_owned(), false),
            ("{SSHA}lcQQO/lOKcEpnhqFebqIP/U334hwZXBwZXIwMA==".to_owned(), true),
            ("{SSHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=".to_owned(), false),
            ("{PLAIN}plain".to_owned(), false),
            ("plain".to_owned(), false),
        ] {
            assert_eq!(is_verifiable(&hash), is, "{hash}");
        }
    }

    #[test]
    fn weak_hashes_are_reported_and_served() {
        let weak = "ann:$apr1$Zk3v$zrUHnc3neMu1SxlYRVyIb.\nbob:{SHA}L55TUjtiq8FBorTWAZ0jy6g129A=\n";
        let reading = read_users(weak);
        assert_eq!(reading.wanted.policies["basic"]["users"].as_object().map(Map::len), Some(2));
        let found = reading.findings.iter().find(|one| one.annotation == "auth-secret").expect("a finding");
        assert_eq!(found.behaviour, Behaviour::Differs);
        assert!(
            found.text.ends_with("ann (MD5, the default of htpasswd), bob (SHA-1 without a salt)"),
            "{found:?}"
        );
        let reading = read_users(&format!("{weak}old:lQhul89CPXQlE\n"));
        assert_eq!(reading.wanted.policies["basic"]["users"].as_object().map(Map::len), Some(2));
        let found = reading.findings.iter().find(|one| one.annotation == "auth-secret").expect("a finding");
        assert_eq!(found.behaviour, Behaviour::Unsupported);
        assert!(found.text.contains("old (crypt with DES"), "{found:?}");
        assert!(read_users("old:lQhul89CPXQlE\n").wanted.denied.is_some());
    }

    #[test]
    fn kinds_that_are_not_verified_have_names() {
        for (hash, kind) in [
            ("$2y$16$x", "bcrypt of a cost that is not verified"),
            ("$6$rounds=9000000$salt$x", "SHA-512 of crypt with rounds that are not verified"),
            ("{PLAIN}x", "plain text"),
            ("bGVh02xkuGli2", "crypt with DES, plain text or a malformed hash"),
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
