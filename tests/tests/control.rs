//! The control plane keeps answering: files that hang, files that are nobody's business, silent connections, wrong tokens,
//! names of strangers, large bodies and many routes.

mod connections;
mod files;
mod hosts;
mod scale;
mod tokens;
