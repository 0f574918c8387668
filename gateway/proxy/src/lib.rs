//! The worker: accept, receive, route, pick, forward, respond, record.
