//! The control plane keeps answering under files that hang, files without permissions, silent connections,
//! wrong tokens, unknown host names, large bodies and many routes.

mod connections;
mod files;
mod hosts;
mod scale;
mod tokens;
