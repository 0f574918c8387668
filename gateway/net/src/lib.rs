//! Sockets, time and spawning: the one seam through which the gateway touches the outside.
