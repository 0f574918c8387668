//! The contents of each kind of object: the fields that the translation reads, and no others.

mod core;
mod gateway;
mod ingress;
mod policy;
mod route;

pub use core::{
    ConfigMap, EndpointConditions, EndpointSlice, Namespace, Secret, ServiceContents, ServicePort, SlicePort,
    SlicedEndpoint,
};
pub use gateway::{
    AllowedListeners, AllowedRoutes, ClientValidation, Gateway, GatewayAddress, GatewayClass,
    GatewayReference, LabelSelector, Listener, ListenerSet, ListenerTls, RouteKind, RouteNamespaces,
    SecretReference, SelectorRequirement,
};
pub use ingress::{
    Ingress, IngressBackend, IngressClass, IngressPath, IngressPaths, IngressPort, IngressRule,
    IngressService, IngressTls,
};
pub use policy::{
    BackendTlsPolicy, GrantFrom, GrantTo, ReferenceGrant, SubjectAltName, TargetReference, TollgatePolicy,
    Validation,
};
pub use route::{
    BackendReference, Cors, Filter, Fraction, GrpcMatch, GrpcMethod, GrpcRoute, GrpcRule, HeaderModifier,
    HttpHeader, HttpMatch, HttpRoute, HttpRule, Mirror, ParentReference, PathMatch, PathModifier, Redirect,
    Retry, RouteTimeouts, StreamRoute, StreamRule, UrlRewrite, ValueMatch,
};
