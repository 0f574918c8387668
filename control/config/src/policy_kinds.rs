//! The kinds of policies, which lie above this crate: the program registers them before it reads anything.
//!
//! A [`PolicyKind`] has the row of its key under `policies` and reads the key's value to [`PolicySettings`],
//! which this crate passes on without knowing their type. The order of the kinds is the order in which they act
//! on a request, and the order of their keys in the schema and the reference. A program that registers no kinds
//! refuses every policy as an unknown key, so no policy is accepted and then ignored.

use std::any::Any;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::position::{At, Spanned};
use crate::reader::{Field, Reader};
use crate::sections::tls::PemFile;
use crate::spec::{Choice, KeySpec, SectionSpec, USE_KEY};

/// A kind of policy: a key under `policies`.
pub trait PolicyKind: Sync {
    /// Returns the row of its key.
    fn key(&self) -> KeySpec;

    /// Returns whether it decides if a client is admitted.
    fn is_guard(&self) -> bool;

    /// Reads a value that is not `off`. Returns `None` after a problem, which has been reported.
    fn read(&self, reader: &mut Reader, field: Field<'_>) -> Option<Arc<dyn PolicySettings>>;
}

/// The settings of a policy, of the type that its kind knows.
pub trait PolicySettings: Any + Debug + Send + Sync {
    /// Returns whether other settings have the same type and value.
    fn equals(&self, other: &dyn PolicySettings) -> bool;

    /// Returns a copy.
    fn copy(&self) -> Arc<dyn PolicySettings>;

    /// Returns whether they name files.
    fn names_files(&self) -> bool;

    /// Returns the files that they name.
    fn files(&mut self) -> Vec<&mut PemFile>;

    /// Returns the Unix sockets that they name.
    fn sockets(&self) -> Vec<(At, PathBuf)>;

    /// Returns the upstreams that they name.
    fn upstreams(&self) -> Vec<&Spanned<String>>;
}

impl PartialEq for dyn PolicySettings {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

static KINDS: OnceLock<Vec<&'static dyn PolicyKind>> = OnceLock::new();

/// Registers the kinds of policies of this program, in the order in which they act on a request. Further calls
/// change nothing.
///
/// # Panics
/// If a configuration was read before the first call: it has been read without policies.
pub fn register_policies(kinds: impl FnOnce() -> Vec<&'static dyn PolicyKind>) {
    assert!(
        !KINDS.get_or_init(kinds).is_empty(),
        "the kinds of policies were needed before they were registered"
    );
}

/// Returns the kinds of policies in their order.
pub(crate) fn policy_kinds() -> &'static [&'static dyn PolicyKind] {
    KINDS.get_or_init(Vec::new)
}

/// Returns whether a kind of policies decides if a client is admitted.
#[must_use]
pub fn is_guard(kind: &str) -> bool {
    policy_kinds().iter().any(|known| known.is_guard() && known.key().name == kind)
}

/// Returns the section `policies`: the used sets first, then the kinds.
pub(crate) fn policies_section() -> &'static SectionSpec {
    static SECTION: LazyLock<SectionSpec> = LazyLock::new(|| SectionSpec {
        name: "policies",
        noun: "`policies`",
        doc: "Policies of the gateway, a listener, a route or an upstream, or a set of them.",
        choice: Choice::Free,
        keys: std::iter::once(USE_KEY)
            .chain(policy_kinds().iter().map(|kind| kind.key()))
            .collect::<Vec<_>>()
            .leak(),
    });
    &SECTION
}
