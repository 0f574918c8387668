//! Binding, accepting and handing connections to workers.
