//! Tests how alternatives admit and refuse.

use tollgate_observe::Reason;

use super::*;
use crate::api_key::ApiKeyRules;
use crate::authorize::{AuthorizeRule, AuthorizeRules};
use crate::ip::IpRules;
use crate::testing::Sent;
use crate::{Block, Consumer, ConsumerEntry, Consumers, Context, CredentialSource, Identity, Refusal};

fn consumers() -> Arc<Consumers> {
    let known = |name: &str, group: &str, key: &str| {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
        let mut api_key = [0; 32];
        api_key.copy_from_slice(hash.as_ref());
        let consumer = Consumer { name: name.to_owned(), groups: vec![group.to_owned()], claims: Vec::new() };
        ConsumerEntry { consumer, api_keys: vec![api_key], ..ConsumerEntry::default() }
    };
    Arc::new(Consumers::new(vec![known("alice", "admin", "a"), known("bob", "dev", "b")]))
}

/// An API key in this field, announced to the upstream in `X-Who-` plus the field's name.
fn key(field: &str, optional: bool) -> Arc<dyn Planned> {
    Arc::new(ApiKeyRules {
        from: vec![
            CredentialSource::Header { name: field.to_owned(), prefix: None },
            CredentialSource::Query(field.to_ascii_lowercase()),
        ],
        forward: false,
        optional,
        identity: Identity::new(Some(format!("X-Who-{field}")), None),
        consumers: consumers(),
    })
}

fn admins() -> Arc<dyn Planned> {
    let rule = AuthorizeRule { groups: vec!["admin".to_owned()], ..AuthorizeRule::default() };
    Arc::new(AuthorizeRules { allow: Some(vec![rule]), deny: Vec::new() })
}

fn nobodys_address() -> Arc<dyn Planned> {
    let block = Block { address: [10, 0, 0, 0].into(), prefix: 8 };
    Arc::new(IpRules { allow: vec![block], deny: Vec::new() })
}

/// Evaluates a request with these fields. Returns the consumer and the head, or the refusal.
fn admitted(alternatives: Vec<Vec<Arc<dyn Planned>>>, fields: &str) -> Result<(String, String), Refusal> {
    let policy = Arc::new(AnyOfRules { alternatives }).activate("k", &Arc::default());
    let (mut sent, mut context) = (Sent::new(fields), Context::default());
    let verdict = policy.request(&mut sent.request(&mut context));
    match verdict {
        Verdict::Continue => {
            let who = context.consumer.as_ref().map_or("nobody", |consumer| &consumer.name).to_owned();
            Ok((who, String::from_utf8_lossy(sent.head.head.bytes()).into_owned()))
        }
        Verdict::Refuse(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn reason(alternatives: Vec<Vec<Arc<dyn Planned>>>, fields: &str) -> Reason {
    admitted(alternatives, fields).expect_err("it is refused").reason
}

#[test]
fn the_first_admission_identifies_and_hides_all_credentials() {
    let both = || vec![vec![key("K1", false)], vec![key("K2", false)]];
    for (fields, who, identity) in [
        ("K1: a\r\n", "alice", "X-Who-K1: alice"),
        ("K2: b\r\n", "bob", "X-Who-K2: bob"),
        ("K1: wrong\r\nK2: b\r\n", "bob", "X-Who-K2: bob"),
        ("K1: a\r\nK2: b\r\n", "alice", "X-Who-K1: alice"),
        ("K1: a\r\nX-Who-K2: root\r\nX_Who_K1: root\r\n", "alice", "X-Who-K1: alice"),
    ] {
        let (found, head) = admitted(both(), fields).expect("it is let in");
        assert_eq!(found, who, "{fields}");
        assert_eq!(head, format!("GET /a?b=c HTTP/1.1\r\nHost: a.example\r\n{identity}\r\n\r\n"), "{fields}");
    }
    assert_eq!(reason(both(), ""), Reason::CredentialsMissing);
    assert_eq!(reason(both(), "K1: wrong\r\n"), Reason::CredentialsRefused);
}

#[test]
fn a_refusing_alternative_leaves_no_effect() {
    let alternatives = || vec![vec![key("K1", false), admins()], vec![key("K2", false)]];
    let (who, head) = admitted(alternatives(), "K1: b\r\nK2: b\r\n").expect("it is let in");
    assert_eq!(who, "bob");
    assert!(!head.contains("X-Who-K1") && head.contains("X-Who-K2: bob"), "{head}");
    assert_eq!(admitted(alternatives(), "K1: a\r\n").expect("an admin").0, "alice");
    // Bob's key is valid, but he is not permitted.
    assert_eq!(reason(alternatives(), "K1: b\r\n"), Reason::NotAuthorized);
    assert_eq!(reason(alternatives(), "K1: b\r\nK2: wrong\r\n"), Reason::NotAuthorized);
}

#[test]
fn an_optional_alternative_rejects_a_wrong_credential() {
    // The order of the alternatives makes no difference.
    for alternatives in [
        || vec![vec![key("K1", true)], vec![key("K2", false)]],
        || vec![vec![key("K2", false)], vec![key("K1", true)]],
    ] {
        assert_eq!(admitted(alternatives(), "").expect("it is let in").0, "nobody");
        assert_eq!(admitted(alternatives(), "K2: b\r\n").expect("it is let in").0, "bob");
        assert_eq!(reason(alternatives(), "K2: wrong\r\n"), Reason::CredentialsRefused);
        assert_eq!(reason(alternatives(), "K1: wrong\r\n"), Reason::CredentialsRefused);
    }
}

#[test]
fn an_address_or_a_key() {
    let alternatives = || vec![vec![nobodys_address()], vec![key("K1", false)]];
    assert_eq!(admitted(alternatives(), "K1: a\r\n").expect("it is let in").0, "alice");
    assert_eq!(reason(alternatives(), ""), Reason::CredentialsMissing);
    assert_eq!(reason(vec![vec![nobodys_address()]], ""), Reason::AddressDenied);
}
