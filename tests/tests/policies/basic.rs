//! `basic`: names and passwords.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tollgate_tests::{Gateway, Origin, eventually, http2};

use super::auth::{both, passed, refused};
use crate::tls::Files;

/// The hash of `correct horse`, by bcrypt with a cost of 4.
pub const BCRYPT: &str = "$2b$04$YUDH4LPhF5SiQuEneCdn9.ltTxgeJ.A7tkKykgt8kADTseU/KH3b.";
/// The hash of the same password by argon2id.
pub const ARGON: &str =
    "$argon2id$v=19$m=64,t=1,p=1$XXAMTRxD4ghA4c5whva2Uw$0pRUqObJcMhxER33T8IcCrFzIYICukVkzJf7YQ0MC/o";

/// Returns the consumers `alice` and `bob`, whose password is `correct horse`.
pub fn consumers() -> String {
    format!(
        "consumers: {{alice: {{groups: admin, password: \"{BCRYPT}\"}}, bob: {{groups: dev, password: \"{ARGON}\"}}}}\n"
    )
}

/// Returns the value of the `Authorization` field.
pub fn shown(name: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")))
}

fn gateway(origin: &Origin, policies: &str) -> Gateway {
    Gateway::start(&format!(
        "{}policies: {{{policies}}}\nroutes: [{{to: \"{}\"}}]\n",
        consumers(),
        origin.address()
    ))
}

#[test]
fn names_with_their_passwords_get_in() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "basic: {realm: staff}");
    // The second time the gateway has the password in its cache.
    for name in ["alice", "bob", "alice", "bob"] {
        for got in passed(
            &gateway,
            &origin,
            &[("Authorization", &shown(name, "correct horse")), ("X-Consumer-Name", "root")],
        ) {
            assert_eq!(got.headers.all("X-Consumer-Name"), [name]);
            assert!(!got.headers.has("Authorization"), "{got:?}");
        }
    }
    // Each name twice, over HTTP/1 and HTTP/2.
    let known: Vec<_> = gateway.wait_records(8).iter().map(|line| line["consumer"].clone()).collect();
    assert_eq!(known.iter().filter(|name| **name == "bob").count(), 4, "{known:?}");
    for (name, password) in [
        ("alice", "correct"),
        ("alice", ""),
        ("eve", "correct horse"),
        ("", ""),
        ("alice", "correct horse\0"),
        ("ALICE", "correct horse"),
    ] {
        refused(&gateway, &origin, &[("Authorization", &shown(name, password))], 401, "credentials_refused");
    }
    for odd in ["Basic", "Basic !!!", "Basic YWxpY2U=", "Bearer x"] {
        refused(&gateway, &origin, &[("Authorization", odd)], 401, "credentials_refused");
    }
    let answer = &both(&gateway, "/", &[])[0];
    assert_eq!(answer.headers.get("WWW-Authenticate"), Some("Basic realm=\"staff\", charset=\"UTF-8\""));
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_password_that_is_changed_holds_no_longer() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "basic: {cache: 1h, forward: on}");
    let header = shown("alice", "correct horse");
    for got in passed(&gateway, &origin, &[("Authorization", &header)]) {
        assert_eq!(got.headers.all("Authorization"), [header.as_str()]);
    }
    gateway.write_config(&format!(
        "listen: $LISTEN\nadmin: $ADMIN\nconsumers: {{alice: {{password: \"{}\"}}}}\npolicies: {{basic: on}}\nroutes: [{{to: \"{}\"}}]\n",
        BCRYPT.replace("$04$", "$05$"),
        origin.address()
    ));
    gateway.signal(tollgate_tests::Signal::HUP);
    tollgate_tests::eventually("the new password holds", || {
        both(&gateway, "/", &[("Authorization", &header)]).iter().all(|answer| answer.status == 401)
    });
}

#[test]
fn slow_verification_blocks_no_other_request() {
    let origin = Origin::ok();
    // Sixteen times as slow as elsewhere in these tests.
    let config = consumers().replace("$04$", "$08$");
    let gateway = Gateway::start(&format!(
        "workers: 1\n{config}routes:\n- {{match: /slow, to: \"{0}\", policies: {{basic: on}}}}\n- {{to: \"{0}\"}}\n",
        origin.address()
    ));
    let mut clients: Vec<_> = (0..4).map(|_| gateway.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        let header = shown("alice", &format!("guess {n}"));
        client.send(format!("GET /slow HTTP/1.1\r\nHost: a\r\nAuthorization: {header}\r\n\r\n"));
    }
    // The only worker serves others during this, and a client that closes is dropped.
    assert_eq!(gateway.client().get("/").status, 200);
    clients.pop().expect("a client").reset();
    for mut client in clients {
        assert_eq!(client.response().status, 401);
    }
}

#[test]
fn clients_that_go_while_their_passwords_wait_leave_nothing_behind() {
    let origin = Origin::ok();
    let config = consumers().replace("$04$", "$10$");
    let gateway = Gateway::start(&format!(
        "workers: 1\n{config}routes:\n- {{match: /slow, to: \"{0}\", policies: {{basic: on}}}}\n- {{to: \"{0}\"}}\n",
        origin.address()
    ));
    // These hold the threads for a while.
    let guesses: Vec<_> = (0..16)
        .map(|n| {
            let (mut client, header) = (gateway.client(), shown("alice", &format!("guess {n}")));
            client.send(format!("GET /slow HTTP/1.1\r\nHost: a\r\nAuthorization: {header}\r\n\r\n"));
            client
        })
        .collect();
    let header = shown("alice", "correct horse");
    let mut client = gateway.client();
    client.send(format!("GET /slow HTTP/1.1\r\nHost: a\r\nAuthorization: {header}\r\n\r\n"));
    let mut http2 = gateway.http2();
    let request = http2::request("GET", "/slow", &[("authorization", &header)]);
    let stream = http2.begin(request, true).expect("begun");
    // Once these requests are answered, the only worker has read the earlier bytes; one of them uses the same
    // connection.
    assert_eq!(http2.get("/").status, 200);
    assert_eq!(gateway.client().get("/").status, 200);
    client.reset();
    stream.reset();
    let gone = || gateway.records().iter().filter(|record| record["reason"] == "client_closed").count();
    eventually("both are let go", || gone() == 2);
    assert!(origin.requests().iter().all(|got| got.target == "/"), "nobody got in");
    drop(guesses);
}

#[test]
fn a_hash_that_costs_too_much_is_refused_at_the_start() {
    let hash = BCRYPT.replace("$04$", "$31$");
    let file = std::env::temp_dir().join(format!("tollgate-basic-{}.yaml", std::process::id()));
    std::fs::write(
        &file,
        format!("listen: :80\nconsumers: {{a: {{password: \"{hash}\"}}}}\nroutes: [{{to: a:80}}]\n"),
    )
    .expect("written");
    let ran = tollgate_tests::tollgate(&["check", file.to_str().expect("text")]);
    assert!(ran.err.contains("acceptable cost"), "{ran:?}");
    std::fs::remove_file(file).expect("it is there");
}

/// A file of `htpasswd` with every kind of hash of `correct horse`, and two users who cannot sign in.
const HTPASSWD: &str = "\
# staff
apr1:$apr1$KXJFwPCc$BJ7ea5bcSA4hv31X0Wt4J1
md5:$1$saltsalt$NuzA7WTAelpl95xgBGWN60:a comment
sha256:$5$vR3mopHUbajDBqK2$HSch8vLKf7NJbeWJMJlHcsFvMUjpwR58gstCEoU91c9
sha512:$6$MJ0x5Gh1/KpW0kTF$32dRgADbqUfvnBwuALDopT/teXe9G9/LU8jlHp9sJUGdUWlr8Biy37v56Mf/L6LwYHxre4YgHvmCTnI6lacrx/
sha1:{SHA}L55TUjtiq8FBorTWAZ0jy6g129A=
ssha:{SSHA}lcQQO/lOKcEpnhqFebqIP/U334hwZXBwZXIwMA==
bcrypt:$2b$04$YUDH4LPhF5SiQuEneCdn9.ltTxgeJ.A7tkKykgt8kADTseU/KH3b.
des:lQhul89CPXQlE
slow:$6$rounds=999999999$abcdefgh$DbXqPck5ABZumVXwcH5eMVHsPZwvQ3jylSxpJmKkZVxcoCiC3N0rPerjHmAqL7r6PK6CIeYnO9.vxpbsevscg/
";

#[test]
fn every_user_of_a_file_of_htpasswd_gets_in_with_a_password() {
    let (origin, files) = (Origin::ok(), Files::new());
    files.write("users", HTPASSWD);
    let path = files.path().join("users");
    let policies = format!("basic: {{users_file: {}, forward: off}}", path.display());
    let gateway = gateway(&origin, &policies);
    for name in ["apr1", "md5", "sha256", "sha512", "sha1", "ssha", "bcrypt"] {
        for got in passed(&gateway, &origin, &[("Authorization", &shown(name, "correct horse"))]) {
            assert_eq!(got.headers.all("X-Consumer-Name"), [name]);
        }
        for wrong in ["correct", "Correct horse", ""] {
            let header = shown(name, wrong);
            refused(&gateway, &origin, &[("Authorization", &header)], 401, "credentials_refused");
        }
    }
    // Of these, the file has no hash that is verified; alice is a consumer, but not one of the file's users.
    for name in ["des", "slow", "alice", "nobody"] {
        let header = shown(name, "correct horse");
        refused(&gateway, &origin, &[("Authorization", &header)], 401, "credentials_refused");
    }
    gateway.await_message("`des` (line 9), `slow` (line 10) cannot sign in");
    gateway.await_message("4 password hashes are weak, those of `apr1`, `md5`, `sha1`, `ssha`");
    files.write("users", &HTPASSWD.replace("sha1:", "ann:"));
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the new file holds", || {
        let admits = |name: &str| {
            let header = shown(name, "correct horse");
            both(&gateway, "/", &[("Authorization", &header)]).iter().all(|answer| answer.status == 200)
        };
        admits("ann") && !admits("sha1")
    });
}

#[test]
fn check_names_the_users_with_weak_hashes() {
    let files = Files::new();
    let checked = |text: &str| {
        files.write(
            "gateway.yaml",
            &format!("listen: 127.0.0.1:8080\n{text}\nroutes: [{{to: \"10.0.0.1:80\"}}]\n"),
        );
        tollgate_tests::tollgate(&["check", files.path().join("gateway.yaml").to_str().expect("text")])
    };
    let apr1 = "$apr1$KXJFwPCc$BJ7ea5bcSA4hv31X0Wt4J1";
    let consumers =
        checked(&format!("consumers: {{ann: {{password: \"{apr1}\"}}, bob: {{password: \"{BCRYPT}\"}}}}"));
    let users = checked(&format!("policies: {{basic: {{users: {{ann: \"{apr1}\", bob: \"{BCRYPT}\"}}}}}}"));
    for ran in [consumers, users] {
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.err.contains("warning: the password hash of `ann` is weak"), "{ran:?}");
        assert!(ran.err.contains("tollgate hash --argon2") && !ran.err.contains("KXJFwPCc"), "{ran:?}");
    }
    files.write("users", "no file of htpasswd\n");
    let path = files.path().join("users");
    let ran = checked(&format!("policies: {{basic: {{users_file: {}}}}}", path.display()));
    assert!(ran.code == Some(1) && ran.err.contains("line 1 has no colon"), "{ran:?}");
}

#[test]
fn two_places_have_different_users_of_one_name() {
    let origin = Origin::ok();
    let route = |path: &str, user: &str| {
        format!(
            "{{match: /{path}/*, to: \"{}\", policies: {{basic: {{users: {{{user}: \"{BCRYPT}\"}}}}}}}}",
            origin.address()
        )
    };
    let text = format!("{}routes: [{}, {}]\n", consumers(), route("a", "ann"), route("b", "alice"));
    let gateway = Gateway::start(&text);
    for (path, name, status) in [
        ("/a/", "ann", 200),
        ("/a/", "alice", 401),
        ("/b/", "alice", 200),
        ("/b/", "ann", 401),
        ("/b/", "bob", 401),
    ] {
        for answer in both(&gateway, path, &[("Authorization", &shown(name, "correct horse"))]) {
            assert_eq!(answer.status, status, "{path} {name}");
        }
    }
}
