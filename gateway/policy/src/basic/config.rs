//! The settings of `basic`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::section::{
    Fields, KeySpec, PASSWORD_HASH, Problem, Reader, ScalarError, Section, Text, header, pem,
};
use tollgate_config::{PasswordScheme, PemFile, Secret, unverifiable_hash, weak_hashes};

use super::htpasswd::{self, Htpasswd, Rejected};
use super::{BasicRules, is_password_hash};
use crate::credential::Admission;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::{Consumer, ConsumerEntry, Consumers, Planned};

static USERS_FILE: Text =
    Text { expected: "the path of a file such as `/etc/nginx/.htpasswd`", pattern: Some("."), loose: false };
/// Maximum number of users that a message names.
const NAMED_USERS_MAX: usize = 5;

/// Admits requests with the name and password of one of the `consumers` (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "basic_policy", noun = "`basic`", switch, check = check)]
pub(crate) struct BasicSettings {
    /// The realm that browsers show.
    #[key(
        expected = "a text such as `staff only`", pattern = "^[^\"\\\\]+$", loose, parse = realm, default = restricted,
    )]
    realm: String,
    /// Users of this policy alone, by name, each with the hash of a password. They replace the `consumers`.
    #[key(text = PASSWORD_HASH, pairs = (user, password_hash), concealed)]
    users: Vec<(String, Secret)>,
    /// A file of `htpasswd` with the users of this policy. They replace the `consumers`, and are in addition to `users`.
    #[key(
        text = USERS_FILE, read = pem,
        also = ["auth_basic_user_file", "usersFile", "user_file", "htpasswd", "passwords_file"],
    )]
    users_file: Option<PemFile>,
    /// Whether the password is forwarded upstream.
    #[key(default = off, also = ["keep", "hide_credentials"])]
    forward: bool,
    /// How long a verified password is cached.
    #[key(time = "1s"..="1h", off, default = "1m")]
    cache: Option<Duration>,
    #[key(flatten)]
    admission: Admission,
}

impl PolicyConfig for BasicSettings {
    const KEY: KeySpec = policy_key::<Self>(
        "basic",
        "Admits requests with the name and password of one of the `consumers` (401).",
    )
    .aliases(&["basic_auth", "basic-auth", "basicAuth", "auth_basic", "password"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(BasicRules {
            realm: self.realm.clone(),
            forward: self.forward,
            optional: self.admission.optional,
            cache: self.cache.unwrap_or_default(),
            identity: self.admission.identity.compile(),
            consumers: self.own_users(compilation).unwrap_or_else(|| compilation.consumers.clone()),
        })
    }

    fn names_files(&self) -> bool {
        self.users_file.is_some()
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        self.users_file.iter_mut().collect()
    }
}

impl BasicSettings {
    /// Returns the users of this policy alone; `None`: the consumers are its users.
    fn own_users(&self, compilation: &mut Compilation<'_>) -> Option<Arc<Consumers>> {
        if self.users.is_empty() && self.users_file.is_none() {
            return None;
        }
        let written = self.users.iter().map(|(name, hash)| (name.as_str(), hash.reveal()));
        let mut users: Vec<_> = written.collect();
        if let Some(file) = &self.users_file {
            match htpasswd::parse(&file.bytes.0) {
                Ok(parsed) => {
                    compilation.problems.extend(rejected_users(file, &parsed));
                    compilation.problems.extend(weak_hashes(file.at, parsed.users.iter().copied()));
                    // Users that are written here take precedence over users of the file.
                    let is_new = |(name, _): &(&str, &str)| users.iter().all(|(own, _)| own != name);
                    let added: Vec<_> = parsed.users.into_iter().filter(is_new).collect();
                    users.extend(added);
                }
                Err(why) => {
                    let message = format!("{} is not a file of `htpasswd`: {why}", file.shown);
                    let expected = "lines such as `alice:$2y$10$...`";
                    compilation.problems.push(Problem::error(file.at, message).expected(expected));
                }
            }
        }
        Some(Arc::new(Consumers::new(users.into_iter().map(entry).collect())))
    }
}

/// Returns a warning about the users of a file who cannot sign in, or about a file without users.
fn rejected_users(file: &PemFile, parsed: &Htpasswd<'_>) -> Option<Problem> {
    let shown = |one: &Rejected<'_>| format!("`{}` (line {})", one.name, one.line);
    let named: Vec<String> = parsed.rejected.iter().take(NAMED_USERS_MAX).map(shown).collect();
    let message = match parsed.rejected.len() {
        0 if parsed.users.is_empty() => format!("{} has no users: every password is rejected", file.shown),
        0 => return None,
        count if count > NAMED_USERS_MAX => {
            let more = count - NAMED_USERS_MAX;
            format!("{} and {more} more cannot sign in: their hashes are not verified", named.join(", "))
        }
        _ => format!("{} cannot sign in: the hash is not verified", named.join(", ")),
    };
    let help = "crypt with DES, plain text and hashes that cost too much are not verified; `htpasswd -B` writes bcrypt";
    Some(Problem::warning(file.at, message).help(help))
}

fn check(reader: &mut Reader, fields: &Fields<'_>, settings: &mut BasicSettings) {
    let users = settings.users.iter().map(|(name, hash)| (name.as_str(), hash.reveal()));
    reader.problems.extend(fields.get("users").and_then(|field| weak_hashes(field.at, users)));
}

fn entry((name, hash): (&str, &str)) -> ConsumerEntry {
    ConsumerEntry {
        consumer: Consumer { name: name.to_owned(), ..Consumer::default() },
        password: Some(hash.to_owned()),
        ..ConsumerEntry::default()
    }
}

/// Checks the name of a user, which is sent upstream in a field and ends at a colon in a request.
fn user(text: &str) -> Result<String, ScalarError> {
    match header::value(text) {
        Ok(name) if !name.is_empty() && !name.contains(':') => Ok(name),
        _ => Err(ScalarError::new("{} cannot be the name of a user").help("a name such as `alice`")),
    }
}

/// Checks a password's hash. No message repeats it.
fn password_hash(text: &str) -> Result<Secret, ScalarError> {
    if is_password_hash(text) {
        return Ok(Secret::from(text.to_owned()));
    }
    let error = match PasswordScheme::split(text) {
        Some(_) => ScalarError::new("this hash is malformed, or too expensive to verify"),
        None => ScalarError::new(unverifiable_hash(text)),
    };
    Err(error.help("`tollgate hash --argon2` asks for the password and prints a hash"))
}

/// Checks a realm, which is sent between quotes in a header field.
fn realm(text: &str) -> Result<String, ScalarError> {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\';
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} cannot be a realm").help("printable ASCII, without `\"` and `\\`")),
    }
}
