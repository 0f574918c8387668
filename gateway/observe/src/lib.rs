//! Counters, access log, metrics exposition and the live cost meter.
