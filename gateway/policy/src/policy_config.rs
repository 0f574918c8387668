//! The declaration of a kind of policy.
//!
//! A built-in policy is a folder of this crate. Its `config.rs` declares the settings that a user writes under the
//! policy's key, with `#[derive(Section)]`; [`PolicyConfig`] adds the key and the step from settings to a
//! [`Planned`] policy. [The registry](crate::registry) lists the kinds by their type. It knows them as
//! [`BuiltInPolicy`], which converts between the settings' types, so no policy does.

use std::any::Any;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_config::section::{Field, KeySpec, Reader, Shape, Value};
use tollgate_config::{At, PemFile, PolicyKind, PolicySettings, Problem, Spanned};
use tollgate_route::PathRules;

use crate::{Consumers, Planned};

/// The settings of a kind of policy, and what follows from them.
pub(crate) trait PolicyConfig: Value + Clone + Debug + PartialEq + Send + Sync + 'static {
    /// The key under `policies`; see [`policy_key`].
    const KEY: KeySpec;
    /// Whether the policy decides if a client is admitted. It can then be in an alternative of `any_of`, and a
    /// route with it counts as protected.
    const IS_GUARD: bool = false;

    /// Returns the policy for a plan. Problems that show only in combination with other parts of the
    /// configuration go to the compilation.
    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned>;

    /// Returns whether the settings name files; then [`files`](Self::files) returns them.
    fn names_files(&self) -> bool {
        false
    }

    /// Returns the files that the settings name. The gateway reads them before it compiles the policy, and again
    /// when they change.
    fn files(&mut self) -> Vec<&mut PemFile> {
        Vec::new()
    }

    /// Returns the Unix sockets that the settings name. Documents of the API may only name permitted ones.
    fn sockets(&self) -> Vec<(At, PathBuf)> {
        Vec::new()
    }

    /// Returns the upstreams that the settings name. The compiler reports names that do not exist.
    fn upstreams(&self) -> Vec<&Spanned<String>> {
        Vec::new()
    }
}

/// Returns the row of a policy's key. `off` is a value of every policy.
pub(crate) const fn policy_key<T: Value>(name: &'static str, doc: &'static str) -> KeySpec {
    let shape = match T::SHAPE {
        Shape::AnyOf([Shape::Off | Shape::Switch, ..]) => T::SHAPE,
        _ => const { Shape::AnyOf(&[Shape::Off, T::SHAPE]) },
    };
    KeySpec::new(name, doc, shape)
}

/// The parts of a configuration that policies are compiled with.
#[derive(Debug)]
pub struct Compilation<'c> {
    /// The consumers of all sources.
    pub consumers: &'c Arc<Consumers>,
    /// How paths are normalized.
    pub paths: &'c PathRules,
    /// The problems found so far.
    pub problems: &'c mut Vec<Problem>,
}

/// A kind of policy in the registry.
pub trait BuiltInPolicy: PolicyKind {
    /// Returns the policy that settings of this kind become.
    ///
    /// # Panics
    /// If the settings are those of another kind.
    fn compile(&self, settings: &dyn PolicySettings, compilation: &mut Compilation<'_>) -> Arc<dyn Planned>;
}

/// A kind of policy by the type of its settings.
pub(crate) struct BuiltIn<T>(PhantomData<fn() -> T>);

impl<T> BuiltIn<T> {
    pub const KIND: Self = Self(PhantomData);
}

impl<T: PolicyConfig> PolicyKind for BuiltIn<T> {
    fn key(&self) -> KeySpec {
        T::KEY
    }

    fn is_guard(&self) -> bool {
        T::IS_GUARD
    }

    fn read(&self, reader: &mut Reader, field: Field<'_>) -> Option<Arc<dyn PolicySettings>> {
        T::read(reader, field).map(|settings| Arc::new(Settings(settings)) as _)
    }
}

impl<T: PolicyConfig> BuiltInPolicy for BuiltIn<T> {
    fn compile(&self, settings: &dyn PolicySettings, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let settings: Option<&Settings<T>> = (settings as &dyn Any).downcast_ref();
        settings.expect("the kind has read its settings itself").0.compile(compilation)
    }
}

/// The settings of one kind, as the configuration passes them on.
#[derive(Clone, PartialEq)]
struct Settings<T>(T);

impl<T: Debug> Debug for Settings<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: PolicyConfig> PolicySettings for Settings<T> {
    fn equals(&self, other: &dyn PolicySettings) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn copy(&self) -> Arc<dyn PolicySettings> {
        Arc::new(self.clone())
    }

    fn names_files(&self) -> bool {
        self.0.names_files()
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        self.0.files()
    }

    fn sockets(&self) -> Vec<(At, PathBuf)> {
        self.0.sockets()
    }

    fn upstreams(&self) -> Vec<&Spanned<String>> {
        self.0.upstreams()
    }
}
