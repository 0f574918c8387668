//! Compiled matching of host, path, method, headers and query.
