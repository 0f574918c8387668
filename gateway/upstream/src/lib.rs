//! Endpoints: balance, pool, connect.
