//! Runs gateway, nginx and HAProxy interleaved on equal terms and prints the toll of each.
