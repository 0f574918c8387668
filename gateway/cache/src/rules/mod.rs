//! The rules of RFC 9111 as functions of a request, a response and the time. They hold no state.

pub(crate) mod admit;
pub(crate) mod age;
pub(crate) mod answer;
pub(crate) mod cache_status;
pub(crate) mod directives;
mod facts;
pub(crate) mod freshness;
pub(crate) mod invalidation;
pub(crate) mod request_control;
pub(crate) mod response_control;
pub(crate) mod reuse;
pub(crate) mod slices;
mod structured;
pub(crate) mod validation;
pub(crate) mod vary;
