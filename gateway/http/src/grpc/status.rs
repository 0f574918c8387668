//! Status codes of gRPC calls, and their relation to HTTP statuses. The proxy reads the [`GrpcStatus`] of an
//! endpoint's response for retries, health and the log, and derives one for its own errors.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $failure:literal;)+) => {
        /// The outcome of a call (gRPC's "Status codes and their use in gRPC"). The discriminant is the
        /// number in `grpc-status`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum GrpcStatus {
            $($(#[$doc])* $variant = $number,)+
        }

        impl GrpcStatus {
            /// Every code, in order of its number.
            pub const ALL: [GrpcStatus; 17] = [$(GrpcStatus::$variant),+];

            /// The HTTP status that is equivalent when an endpoint's health is judged: 500 or more if the
            /// endpoint is at fault rather than the call. The mapping is from `google/rpc/code.proto`, except
            /// `unimplemented`: a client that calls an unknown method says nothing about the endpoint.
            #[must_use]
            pub const fn as_http(self) -> u16 {
                match self { $(GrpcStatus::$variant => $failure,)+ }
            }
        }
    };
}

codes! {
    /// The call succeeded.
    Ok = 0, 200;
    /// The caller cancelled the call.
    Cancelled = 1, 499;
    /// Unknown error; unhandled errors of servers become this too.
    Unknown = 2, 500;
    /// An argument is invalid, regardless of the system's state.
    InvalidArgument = 3, 400;
    /// The deadline expired.
    DeadlineExceeded = 4, 504;
    /// A requested entity was not found.
    NotFound = 5, 404;
    /// An entity to be created already exists.
    AlreadyExists = 6, 409;
    /// The caller lacks permission.
    PermissionDenied = 7, 403;
    /// A quota or a resource is exhausted.
    ResourceExhausted = 8, 429;
    /// The system is not in the state that the call requires.
    FailedPrecondition = 9, 400;
    /// The call was aborted, typically by a conflict.
    Aborted = 10, 409;
    /// A value is past the valid range.
    OutOfRange = 11, 400;
    /// The method or service does not exist.
    Unimplemented = 12, 404;
    /// An invariant is broken.
    Internal = 13, 500;
    /// The service is currently unavailable; a retry may help.
    Unavailable = 14, 503;
    /// Data is lost or corrupted beyond recovery.
    DataLoss = 15, 500;
    /// The caller is not authenticated.
    Unauthenticated = 16, 401;
}

impl GrpcStatus {
    /// Parses the value of `grpc-status`. As in gRPC clients, anything but a known number becomes
    /// [`GrpcStatus::Unknown`].
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        let number = match value {
            [digit @ b'0'..=b'9'] => digit - b'0',
            [b'1', digit @ b'0'..=b'6'] => 10 + (digit - b'0'),
            _ => 2,
        };
        Self::ALL[usize::from(number)]
    }

    /// The number in `grpc-status`.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code that a gRPC client derives from an HTTP status (gRPC's "HTTP to gRPC Status Code Mapping").
    #[must_use]
    pub const fn from_http(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502..=504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }

    /// The code in the lines of a trailer section, or of a head that ends the response; each line has its
    /// CRLF.
    #[must_use]
    pub fn of_lines(lines: &[u8]) -> Option<Self> {
        let mut fields = crate::h2::fields(lines);
        fields
            .find(|(name, _)| name.eq_ignore_ascii_case(b"grpc-status"))
            .map(|(_, value)| Self::parse(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for (index, code) in GrpcStatus::ALL.iter().enumerate() {
            assert_eq!(usize::from(code.number()), index);
            assert_eq!(GrpcStatus::parse(index.to_string().as_bytes()), *code);
        }
        for odd in ["", "17", "20", "x", "1x", "00", "014", "-1", "255", "99999999999999999999"] {
            assert_eq!(GrpcStatus::parse(odd.as_bytes()), GrpcStatus::Unknown, "{odd}");
        }
    }

    #[test]
    fn the_published_mapping() {
        for (status, code) in [
            (400, GrpcStatus::Internal),
            (401, GrpcStatus::Unauthenticated),
            (403, GrpcStatus::PermissionDenied),
            (404, GrpcStatus::Unimplemented),
            (429, GrpcStatus::Unavailable),
            (502, GrpcStatus::Unavailable),
            (503, GrpcStatus::Unavailable),
            (504, GrpcStatus::Unavailable),
            (500, GrpcStatus::Unknown),
            (413, GrpcStatus::Unknown),
            (301, GrpcStatus::Unknown),
        ] {
            assert_eq!(GrpcStatus::from_http(status), code, "{status}");
        }
    }

    #[test]
    fn statuses_in_trailers() {
        assert_eq!(
            GrpcStatus::of_lines(b"x-a: 1\r\nGrpc-Status: 14\r\ngrpc-message: m\r\n"),
            Some(GrpcStatus::Unavailable)
        );
        assert_eq!(GrpcStatus::of_lines(b"grpc-message: grpc-status: 3\r\n"), None);
        assert_eq!(GrpcStatus::of_lines(b""), None);
    }

    #[test]
    fn statuses_that_blame_the_endpoint() {
        let failures: Vec<_> = GrpcStatus::ALL.iter().filter(|code| code.as_http() >= 500).collect();
        let expected = [
            GrpcStatus::Unknown,
            GrpcStatus::DeadlineExceeded,
            GrpcStatus::Internal,
            GrpcStatus::Unavailable,
            GrpcStatus::DataLoss,
        ];
        assert_eq!(failures, expected.iter().collect::<Vec<_>>());
    }
}
