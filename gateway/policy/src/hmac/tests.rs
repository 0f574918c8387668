//! Tests signatures: what they cover, and when they are refused.

use std::time::Duration;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::testing::Sent;
use crate::{ConsumerEntry, Context, HmacSecret};

/// The key `test-shared-secret` (RFC 9421, B.1.5).
const SECRET: &str =
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==";

fn secret() -> Vec<u8> {
    STANDARD.decode(SECRET).expect("base64")
}

fn rules() -> HmacRules {
    let known = ConsumerEntry {
        consumer: Consumer { name: "ann".to_owned(), ..Consumer::default() },
        hmac_keys: vec![("test-shared-secret".to_owned(), HmacSecret::new(&secret()))],
        ..ConsumerEntry::default()
    };
    HmacRules {
        components: Vec::new(),
        label: None,
        tag: None,
        max_age: Duration::from_secs(300),
        leeway: Duration::from_secs(30),
        nonces: None,
        body: None,
        forward: false,
        optional: false,
        identity: Identity::new(Some("X-Consumer-Name".to_owned()), None),
        consumers: Arc::new(Consumers::new(vec![known])),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Returns the fields of a signature over this base, whose last line holds the parameters.
fn signed(lines: &str, parameters: &str) -> String {
    let base = format!("{lines}\"@signature-params\": {parameters}");
    let tag = sign(&Key::new(HMAC_SHA256, &secret()), base.as_bytes());
    let value = STANDARD.encode(tag.as_ref());
    format!("Signature-Input: s={parameters}\r\nSignature: s=:{value}:\r\n")
}

fn verdict(policy: &Arc<dyn Policy>, sent: &mut Sent) -> Result<(), (Reason, &'static str)> {
    let mut context = Context::default();
    match policy.request(&mut sent.request(&mut context)) {
        Verdict::Continue => {
            assert_eq!(context.consumer.expect("somebody").name, "ann");
            Ok(())
        }
        Verdict::Refuse(refusal) => Err((refusal.reason, refusal.detail.unwrap_or_default())),
        other => panic!("{other:?}"),
    }
}

fn activate(rules: HmacRules) -> Arc<dyn Policy> {
    Arc::new(rules).activate("route/r/hmac", &Arc::default())
}

#[test]
fn the_example_of_the_standard() {
    // RFC 9421, B.2.5, for the request of B.2.
    let fields = "Date: Tue, 20 Apr 2021 02:07:55 GMT\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\
                  Signature-Input: sig-b25=(\"date\" \"@authority\" \"content-type\");created=1618884473;keyid=\"test-shared-secret\"\r\n\
                  Signature: sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:\r\n";
    // The signature was created in 2021.
    let (mut sent, mut context) =
        (Sent::at("example.com", "POST /foo?param=Value&Pet=dog HTTP/1.1", fields), Context::default());
    let request = sent.request(&mut context);
    let inputs = dictionary(&all(&request, "signature-input").expect("one")).expect("a dictionary");
    let values = dictionary(&all(&request, "signature").expect("one")).expect("a dictionary");
    let (_, input) = inputs.into_iter().next().expect("one");
    let signature = signature(input, Some(&values[0].1)).expect("a signature");
    let long = HmacRules { max_age: Duration::from_secs(1 << 40), ..rules() };
    let good = long.verify(&request, signature, None).expect("it is good");
    assert_eq!((good.consumer.name.as_str(), good.digest), ("ann", false));
}

#[test]
fn components_follow_the_standard() {
    let created = now();
    let parameters = format!(
        "(\"@method\" \"@target-uri\" \"@authority\" \"@scheme\" \"@request-target\" \"@path\" \"@query\" \"x-a\");created={created};keyid=\"test-shared-secret\";alg=\"hmac-sha256\""
    );
    let lines = "\"@method\": GET\n\"@target-uri\": http://a.example/a?b=c\n\"@authority\": a.example\n\"@scheme\": http\n\
                 \"@request-target\": /a?b=c\n\"@path\": /a\n\"@query\": ?b=c\n\"x-a\": 1, 2\n";
    let fields = format!("X-A:  1 \r\nX-A: 2\r\n{}", signed(lines, &parameters));
    let policy = activate(rules());
    assert_eq!(verdict(&policy, &mut Sent::new(&fields)), Ok(()));
    assert_eq!(verdict(&policy, &mut Sent::at("A.example:80", "GET /a?b=c HTTP/1.1", &fields)), Ok(()));
    for (host, line) in [
        ("a.example", "POST /a?b=c HTTP/1.1"),
        ("a.example", "GET /a?b=d HTTP/1.1"),
        ("a.example", "GET /b?b=c HTTP/1.1"),
        ("b.example", "GET /a?b=c HTTP/1.1"),
        ("a.example:81", "GET /a?b=c HTTP/1.1"),
    ] {
        let refused = Err((Reason::CredentialsRefused, "the signature is not good"));
        assert_eq!(verdict(&policy, &mut Sent::at(host, line, &fields)), refused, "{host} {line}");
    }
}

#[test]
fn refused_signatures() {
    let at = now();
    let good = format!("(\"@method\");created={at};keyid=\"test-shared-secret\"");
    let method = "\"@method\": GET\n";
    let policy = activate(HmacRules { components: vec!["@method".to_owned()], ..rules() });
    let detail_of = |fields: &str| verdict(&policy, &mut Sent::new(fields)).err().map(|(_, detail)| detail);
    assert_eq!(detail_of(&signed(method, &good)), None);
    assert_eq!(
        verdict(&policy, &mut Sent::new("")),
        Err((Reason::CredentialsMissing, "the request is not signed"))
    );
    for (lines, parameters, detail) in [
        (
            "",
            format!("();created={at};keyid=\"test-shared-secret\""),
            "the signature does not cover all that it must",
        ),
        (method, format!("(\"@method\");created={at};keyid=\"other\""), "no consumer has this key"),
        (method, format!("(\"@method\");created={at}"), "the signature names no key"),
        (
            method,
            "(\"@method\");keyid=\"test-shared-secret\"".to_owned(),
            "the signature does not say when it was made",
        ),
        (
            method,
            format!("(\"@method\");created={};keyid=\"test-shared-secret\"", at - 400),
            "the signature is too old",
        ),
        (
            method,
            format!("(\"@method\");created={};keyid=\"test-shared-secret\"", at + 90),
            "the signature is of a time that is yet to come",
        ),
        (method, format!("{good};expires={}", at - 100), "the signature has expired"),
        (method, format!("{good};expires=\"never\""), "the signature has expired"),
        (method, format!("{good};alg=\"none\""), "the signature's algorithm is not `hmac-sha256`"),
        (method, format!("{good};alg=hmac-sha256"), "the signature's algorithm is not `hmac-sha256`"),
        (
            "\"@method\": GET\n\"x\": \n",
            format!("(\"@method\" \"x\");created={at};keyid=\"test-shared-secret\""),
            "a covered field is not there",
        ),
        (
            "\"@method\": GET\n\"@method\": GET\n",
            format!("(\"@method\" \"@method\");created={at};keyid=\"test-shared-secret\""),
            "a component is covered twice",
        ),
        (
            "\"@method\": GET\n\"@status\": 200\n",
            format!("(\"@method\" \"@status\");created={at};keyid=\"test-shared-secret\""),
            "a component is covered that is not known",
        ),
        (
            "\"@method\": GET\n\"Host\": a.example\n",
            format!("(\"@method\" \"Host\");created={at};keyid=\"test-shared-secret\""),
            "the name of a covered field is not in lower case",
        ),
        (
            "\"@method\";req: GET\n",
            format!("(\"@method\";req);created={at};keyid=\"test-shared-secret\""),
            "a covered component has parameters, none of which are known",
        ),
        ("\"@method\": POST\n", good.clone(), "the signature is not good"),
    ] {
        assert_eq!(detail_of(&signed(lines, &parameters)), Some(detail), "{parameters}");
    }
    assert_eq!(
        detail_of("Signature-Input: s=(\r\nSignature: s=:AQ==:\r\n"),
        Some("`Signature-Input` cannot be read")
    );
    assert_eq!(
        detail_of(&format!("Signature-Input: s={good}\r\nSignature: t=:AQ==:\r\n")),
        Some("`Signature` has none for its label")
    );
    assert_eq!(
        detail_of(&format!("Signature-Input: s={good}\r\nSignature: s=:AQ==:\r\n")),
        Some("the signature is not good")
    );
    // An intermediary could otherwise nominate a signed field, and the upstream would not receive it.
    let covers = format!("(\"@method\" \"x-a\");created={at};keyid=\"test-shared-secret\"");
    let with_field = signed("\"@method\": GET\n\"x-a\": 1\n", &covers);
    assert_eq!(detail_of(&format!("X-A: 1\r\nConnection: x-b\r\n{with_field}")), None);
    assert_eq!(
        detail_of(&format!("X-A: 1\r\nConnection: close, X-a\r\n{with_field}")),
        Some("`Connection` names a covered field")
    );
    // The first valid signature counts, and only a few are verified.
    let after = |count: usize| {
        let others: String = (0..count).map(|n| format!("Signature-Input: a{n}={good}\r\n")).collect();
        detail_of(&format!("{others}{}", signed(method, &good)))
    };
    assert_eq!((after(3), after(4).is_some()), (None, true));
}

#[test]
fn a_nonce_is_good_once_and_a_signature_goes_no_further() {
    let policy = activate(HmacRules { nonces: Some(2), tag: Some("app".to_owned()), ..rules() });
    let with = |more: &str| {
        let parameters = format!("(\"@method\");created={};keyid=\"test-shared-secret\"{more}", now());
        Sent::new(&signed("\"@method\": GET\n", &parameters))
    };
    let mut first = with(";nonce=\"1\";tag=\"app\"");
    assert_eq!(verdict(&policy, &mut first), Ok(()));
    assert_eq!(first.head.head.get_by_text(b"signature"), None);
    assert_eq!(first.head.head.get_by_text(b"x-consumer-name"), Some(&b"ann"[..]));
    let seen = Err((Reason::CredentialsRefused, "this nonce was seen before"));
    assert_eq!(verdict(&policy, &mut with(";nonce=\"1\";tag=\"app\"")), seen);
    assert!(
        verdict(&policy, &mut with(";tag=\"app\"")).is_err()
            && verdict(&policy, &mut with(";nonce=\"2\"")).is_err()
    );
    assert_eq!(verdict(&policy, &mut with(";nonce=\"3\";tag=\"app\"")), Ok(()));
    let full = verdict(&policy, &mut with(";nonce=\"4\";tag=\"app\""));
    assert_eq!(full, Err((Reason::AuthorizationUnavailable, "no more nonces can be remembered")));
}
